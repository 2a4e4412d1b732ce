# SPDX-License-Identifier: Apache-2.0
"""Members that are reached through their hypervisors.

Neutron tells on which hypervisor a member is, and the hypervisor's reports
tell what it accepts. An entry is added to the hypervisor before LB nodes send
to it, and removed after they have stopped.
"""
