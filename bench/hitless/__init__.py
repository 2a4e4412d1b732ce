# SPDX-License-Identifier: Apache-2.0
"""Whether connections survive changes of members and LB nodes."""
