# SPDX-License-Identifier: Apache-2.0
"""Horizon with Octavia's dashboard in a lab, and a tenant's walk in it."""
