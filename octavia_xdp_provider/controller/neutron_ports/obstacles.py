# SPDX-License-Identifier: Apache-2.0
"""Whether packets of a port pass a tap, where a program can take them.

Such a program comes before whatever obeys Neutron there, so that it has to
obey itself what stops a port's traffic. Of the attributes of ports, networks,
subnets, routers and security groups these do: the ``admin_state_up`` of port,
network, router and of the router's port; that a router has no port with the
gateway's address (``search.py``); and rules of security groups
(``security.py``). A port's ``status`` does not: it follows from what runs.
"""

from collections.abc import Mapping
from typing import Any

from octavia_xdp_provider.controller.neutron_ports import findings

_Found = tuple[findings.Obstacle, str]

# Ports of Neutron's own: routers, DHCP, floating IPs, load balancers.
_OF_NETWORK = ('network:', 'neutron:')
_BARE_METAL_OWNER = 'baremetal:'
_SUBPORT_OWNER = 'trunk:subport'
# As ML2 has them; what is not listed is not served.
_NORMAL, _BARE_METAL = 'normal', 'baremetal'
_WITH_TAP = ('ovs', 'bridge', 'tap')
_UNBOUND, _FAILED, _VHOST_USER = 'unbound', 'binding_failed', 'vhostuser'
# In the profile of a port whose flows are in the card (OVS hardware offload).
_SWITCHDEV = 'switchdev'


def switched_off(row: Mapping[str, Any]) -> bool:
    """Whether a port, network or router shall carry nothing.

    :param row: as Neutron's API has it.
    """
    return row.get('admin_state_up') is False


def of_states(port: Mapping[str, Any], network: Mapping[str, Any] | None
              ) -> _Found | None:
    """Whether somebody has switched a port off, whatever else there is."""
    if switched_off(port):
        return (findings.Obstacle.DISABLED,
                'the port is disabled (admin_state_up)')
    if network is not None and switched_off(network):
        return (findings.Obstacle.DISABLED,
                'the port\'s network is disabled (admin_state_up)')
    return None


def of_port(port: Mapping[str, Any]) -> _Found | None:
    """Why a port cannot be served, or None.

    :param port: as Neutron's API has it.
    """
    owner = port.get('device_owner') or ''
    if owner.startswith(_OF_NETWORK):
        return (findings.Obstacle.NOT_A_VM,
                f'the port is one of Neutron\'s own ({owner})')
    if owner == _SUBPORT_OWNER:
        return (findings.Obstacle.TRUNK_SUBPORT,
                'the port is a trunk\'s subport: its packets share the tap '
                'of the trunk\'s parent, with a VLAN tag')
    return _of_binding(port, owner)


def _of_binding(port: Mapping[str, Any], owner: str) -> _Found | None:
    vnic = port.get('binding:vnic_type') or _NORMAL
    vif = port.get('binding:vif_type') or _UNBOUND
    host = port.get('binding:host_id') or ''
    if vnic == _BARE_METAL or owner.startswith(_BARE_METAL_OWNER):
        return (findings.Obstacle.BARE_METAL,
                'the port is a machine\'s own network card')
    if _SWITCHDEV in (port.get('binding:profile') or {}).get(
            'capabilities', ()):
        return (findings.Obstacle.OFFLOADED,
                'the network card forwards the port\'s packets (switchdev)')
    if vnic != _NORMAL:
        return (findings.Obstacle.DIRECT,
                f'the VM has a network card of its own (vnic_type {vnic})')
    if not host or vif == _UNBOUND:
        return (findings.Obstacle.UNBOUND, 'the port is on no hypervisor')
    if vif == _FAILED:
        return (findings.Obstacle.BINDING_FAILED,
                f'Neutron could not bind the port to {host}')
    if vif == _VHOST_USER:
        return (findings.Obstacle.VHOST_USER,
                'the port\'s packets pass user space alone (vhost-user)')
    if vif not in _WITH_TAP:
        return (findings.Obstacle.UNKNOWN_VIF,
                f'the port has the vif_type {vif}, which may have no tap')
    return None
