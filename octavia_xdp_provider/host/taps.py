# SPDX-License-Identifier: Apache-2.0
"""Finds the taps of Neutron ports among the hypervisor's interfaces.

Nova names the tap of a VM "tap" plus the first 11 characters of the port's id,
to fit the kernel's limit of 15 (nova.network.model.VIF.devname, from
binding:vif_details or ``NIC_NAME_LEN``); os-vif names the bridge and the veth
pair of hybrid plugging "qbr", "qvb" and "qvo" the same way (vif_plug_ovs.ovs,
vif_plug_ovs.linux_net). Both write the full id of the port into
external_ids:iface-id of the interface that they plug into Open vSwitch: the
tap itself or, with hybrid plugging, the "qvo" end.
"""

import collections.abc
import typing

from octavia_xdp_provider.host import links as links_module
from octavia_xdp_provider.host import ovsdb

ID_LENGTH = 11
HYBRID = 'qvo'
_USER_SPACE = 'netdev'
_VHOST_USER = ('dpdkvhostuser', 'dpdkvhostuserclient')


class Tap(typing.NamedTuple):
    """The tap of a port. ``ifindex``: None if the tap is absent or unusable;
    ``problem``: why it cannot be served, or None."""

    name: str
    ifindex: int | None = None
    problem: str | None = None


Taps = collections.abc.Mapping[str, Tap]


def name_of(port_id: str) -> str:
    """Return the name of a VM's tap."""
    return f'tap{port_id[:ID_LENGTH]}'


def find(interfaces: collections.abc.Iterable[ovsdb.Interface],
         links: collections.abc.Mapping[str, links_module.Link]
         ) -> dict[str, Tap]:
    """Return taps by port id.

    :param interfaces: interfaces of Open vSwitch.
    :param links: links of the kernel, by name.
    """
    candidates: dict[str, list[Tap]] = {}
    for interface in interfaces:
        candidates.setdefault(interface.port_id, []).append(
            _tap_of(interface, links))
    return {port_id: _only(taps) for port_id, taps in candidates.items()}


def guess(links: collections.abc.Mapping[str, links_module.Link],
          port_ids: collections.abc.Iterable[str]) -> dict[str, Tap]:
    """Return taps by port id from names alone, until Open vSwitch's database
    has answered. Ports without such a link are left out."""
    taps = {}
    for port_id in port_ids:
        link = links.get(name_of(port_id))
        if link is not None:
            taps[port_id] = Tap(link.name, link.index, _refusal(link))
    return taps


def _tap_of(interface: ovsdb.Interface,
            links: collections.abc.Mapping[str, links_module.Link]) -> Tap:
    problem = _refusal_by_open_vswitch(interface)
    if problem:
        return Tap(interface.name, None, problem)
    name = interface.name
    if name.startswith(HYBRID):
        name = name_of(interface.port_id)
    elif interface.datapath_type == _USER_SPACE:
        return Tap(name, None, (
            f'{name} is in a bridge with the userspace datapath, which reads '
            'packets before tc does and would answer them too; plug it '
            'hybrid (qbr, qvo), or use a bridge of the kernel\'s datapath'))
    link = links.get(name)
    if link is None:
        return Tap(name)
    problem = _refusal(link)
    return Tap(name, None if problem else link.index, problem)


def _refusal_by_open_vswitch(interface: ovsdb.Interface) -> str | None:
    if interface.type in _VHOST_USER:
        return (f'{interface.name} is a vhost-user port ({interface.type}): '
                'its packets never pass the kernel; use a tap '
                '(vif_type=ovs)')
    if interface.type not in ('', 'system'):
        return (f'{interface.name} is an interface of type '
                f'{interface.type!r} in Open vSwitch, no tap of a VM; use '
                'a tap (vif_type=ovs)')
    return None


def _refusal(link: links_module.Link) -> str | None:
    if link.port_name and 'vf' in link.port_name:
        return (f'{link.name} represents {link.port_name} of a switch in '
                'hardware (SR-IOV, switchdev): packets pass it there; use '
                'vnic_type=normal without offload')
    return None


def _only(taps: list[Tap]) -> Tap:
    """Choose among taps with the id of the same port; some may be stale."""
    present = [tap for tap in taps if tap.ifindex is not None]
    if len(present) == 1:
        return present[0]
    if present:
        names = ' and '.join(sorted(tap.name for tap in present))
        return Tap(present[0].name, None, (
            f'{names} both have the id of this port in Open vSwitch '
            '(external_ids:iface-id); remove one of them'))
    return next((tap for tap in taps if tap.problem), taps[0])
