# SPDX-License-Identifier: Apache-2.0
"""Pages of reservations; they need no JavaScript."""
