# SPDX-License-Identifier: Apache-2.0
"""Clients of Octavia's API that others write, run against a lab."""
