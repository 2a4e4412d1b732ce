# SPDX-License-Identifier: Apache-2.0
"""Third-party clients of Octavia's API, run against a lab."""
