# SPDX-License-Identifier: Apache-2.0
"""The lab's optional hypervisors: OVN, Neutron's ML2/OVN, and tenants' VMs."""
