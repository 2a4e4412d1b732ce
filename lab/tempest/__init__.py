# SPDX-License-Identifier: Apache-2.0
"""Octavia's own tests of its API (octavia-tempest-plugin), in a lab."""
