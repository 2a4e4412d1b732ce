# SPDX-License-Identifier: Apache-2.0
"""What DevStack's plugin has done by Python: "devstack/plugin.sh" calls it."""
