# SPDX-License-Identifier: Apache-2.0
"""The parts of DevStack's plugin in Python, called by devstack/plugin.sh."""
