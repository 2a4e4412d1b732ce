# SPDX-License-Identifier: Apache-2.0
"""Reads members' ports, hypervisors and security groups from Neutron.

Nothing is changed in Neutron. Whether a program on the hypervisor can take
packets for a member depends on the port alone (``obstacles.py``).
"""
