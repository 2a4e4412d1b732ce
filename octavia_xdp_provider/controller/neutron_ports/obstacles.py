# SPDX-License-Identifier: Apache-2.0
"""Tells whether a port's packets pass a tap where a program can take them.

The program runs before the hypervisor's own implementation of Neutron, so it
has to respect itself whatever stops a port's traffic: the ``admin_state_up``
of port, network, router and router port; a missing router port with the
gateway's address (``search.py``); and rules of security groups
(``security.py``). A port's ``status`` stops nothing: it only reflects the
actual state.
"""

from collections.abc import Mapping
from typing import Any

from octavia_xdp_provider.controller.neutron_ports import findings

_Found = tuple[findings.Obstacle, str]

# Ports of Neutron's own: routers, DHCP, floating IPs, load balancers.
_OF_NETWORK = ('network:', 'neutron:')
_BARE_METAL_OWNER = 'baremetal:'
_SUBPORT_OWNER = 'trunk:subport'
# ML2's names; ports with others are not served.
_NORMAL, _BARE_METAL = 'normal', 'baremetal'
_WITH_TAP = ('ovs', 'bridge', 'tap')
_UNBOUND, _FAILED, _VHOST_USER = 'unbound', 'binding_failed', 'vhostuser'
# Capability of a port with OVS hardware offload, in its binding profile.
_SWITCHDEV = 'switchdev'


def switched_off(row: Mapping[str, Any]) -> bool:
    """Return whether a port, network or router (the API's row) is disabled.
    """
    return row.get('admin_state_up') is False


def of_states(port: Mapping[str, Any], network: Mapping[str, Any] | None
              ) -> _Found | None:
    """Return whether a port or its network is disabled, or None."""
    if switched_off(port):
        return (findings.Obstacle.DISABLED,
                'the port is disabled (admin_state_up)')
    if network is not None and switched_off(network):
        return (findings.Obstacle.DISABLED,
                'the port\'s network is disabled (admin_state_up)')
    return None


def of_port(port: Mapping[str, Any]) -> _Found | None:
    """Return why a port (the API's row) cannot be served, or None."""
    owner = port.get('device_owner') or ''
    if owner.startswith(_OF_NETWORK):
        return (findings.Obstacle.NOT_A_VM,
                f'the port is Neutron\'s own ({owner})')
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
                'the port is the network card of a physical machine')
    if _SWITCHDEV in (port.get('binding:profile') or {}).get(
            'capabilities', ()):
        return (findings.Obstacle.OFFLOADED,
                'the network card forwards the port\'s packets (switchdev)')
    if vnic != _NORMAL:
        return (findings.Obstacle.DIRECT,
                f'the VM has its own network card (vnic_type {vnic})')
    if not host or vif == _UNBOUND:
        return (findings.Obstacle.UNBOUND, 'the port is on no hypervisor')
    if vif == _FAILED:
        return (findings.Obstacle.BINDING_FAILED,
                f'Neutron could not bind the port to {host}')
    if vif == _VHOST_USER:
        return (findings.Obstacle.VHOST_USER,
                'the port\'s packets only pass user space (vhost-user)')
    if vif not in _WITH_TAP:
        return (findings.Obstacle.UNKNOWN_VIF,
                f'the port has the vif_type {vif}, which may have no tap')
    return None
