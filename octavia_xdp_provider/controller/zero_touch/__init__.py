# SPDX-License-Identifier: Apache-2.0
"""Members that are reached through their hypervisors.

Where each is follows from Neutron, what its hypervisor takes from what that
reports. An entry is on the hypervisor before LB nodes send to it, and leaves
it after they have stopped.
"""
