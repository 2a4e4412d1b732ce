# SPDX-License-Identifier: Apache-2.0
"""Where members are, as Neutron has it: ports, hypervisors, security groups.

Nothing is changed in Neutron. Whether a program on the hypervisor could take
packets for a member follows from the port alone (``obstacles.py``), and is
said by name.
"""
