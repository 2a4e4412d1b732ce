# SPDX-License-Identifier: Apache-2.0
"""The control host: database, broker, Keystone, Neutron and Octavia."""
