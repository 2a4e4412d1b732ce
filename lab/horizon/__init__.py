# SPDX-License-Identifier: Apache-2.0
"""Horizon with Octavia's dashboard in a lab, used by a tenant's walk."""
