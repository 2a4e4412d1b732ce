# SPDX-License-Identifier: Apache-2.0
"""Tests run on threads, as the provider's own processes do."""

from octavia_xdp_provider import cmd  # noqa: F401
