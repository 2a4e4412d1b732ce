# SPDX-License-Identifier: Apache-2.0
"""Documents of hypervisors, from what Neutron has and load balancers want."""

from collections.abc import Collection
from collections.abc import Iterable
import ipaddress
from typing import Any

from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.neutron_ports import findings

_PROTOCOLS = {'TCP': host_spec.TCP, 'HTTPS': host_spec.TCP,
              'UDP': host_spec.UDP, 'SCTP': host_spec.SCTP}


def rules(port: findings.Port, versions: Collection[int]
          ) -> list[dict[str, Any]]:
    """What a port's security groups let in, of what listeners can be sent:
    of their protocols.

    :param versions: IP versions of the VIPs.
    """
    return [_rule(rule) for rule in port.rules
            if rule.ip_version in versions
            and rule.protocol in (None, *_PROTOCOLS.values())]


def fixed(port: findings.Port, vip: str) -> findings.Fixed | str:
    """The address of a member's port to which packets for a VIP go: the
    member's own, unless the VIP is of the other IP version.

    :returns: or why there is none, in words.
    """
    version = ipaddress.ip_address(vip).version
    if ipaddress.ip_address(port.address).version == version:
        return findings.Fixed(port.address, port.gateway_mac)
    found = [one for one in port.others
             if ipaddress.ip_address(one.address).version == version]
    if not found:
        return (f'its port has no IPv{version} address, to which packets for '
                f'VIP {vip} could go: give it one, or leave the VIP out')
    if len(found) > 1:
        addresses = ' and '.join(one.address for one in found)
        return (f'its port has several IPv{version} addresses, {addresses}, '
                f'and which one is to serve VIP {vip} is not said: leave one '
                'of them')
    if found[0].gateway_mac is None:
        return (f'no router\'s port has the gateway address of the subnet of '
                f'{found[0].address}, by which VIP {vip} would be answered: '
                'add the subnet to a router')
    return found[0]


def _rule(rule: findings.Rule) -> dict[str, Any]:
    ports = None
    if rule.protocol is not None and rule.ports is not None:
        first, last = rule.ports
        ports = [first or 0, 65535 if last is None else last]
    return {'ip_version': rule.ip_version, 'protocol': rule.protocol,
            'ports': ports, 'remote_network': rule.remote_network,
            'address_set': (rule.remote_group_id
                            or rule.remote_address_group_id)}


def entry(document: spec.Document, listener_id: str, member_id: str,
          member: spec.Member, port: findings.Port, vip: str
          ) -> dict[str, Any]:
    """host_spec.Entry without its key.

    :param vip: in its one spelling; the port has an address for it.
    """
    listener = document['listeners'][listener_id]
    target = fixed(port, vip)
    assert isinstance(target, findings.Fixed)
    return {'load_balancer_id': document['id'], 'listener_id': listener_id,
            'member_id': member_id,
            'vip': vip, 'vip_port': listener['protocol_port'],
            'address': target.address, 'port': member['protocol_port'],
            'protocol': _PROTOCOLS[listener['protocol']],
            'gateway_mac': target.gateway_mac}


def port_document(port: findings.Port, mtu: int,
                  entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """host_spec.Port."""
    found = sorted(entries, key=lambda one: int(one['key']))
    versions = {ipaddress.ip_address(one['vip']).version for one in found}
    return {'version': host_spec.VERSION, 'id': port.id, 'mac': port.mac,
            'mtu': mtu, 'open': not port.security_enabled,
            'rules': rules(port, versions) if port.security_enabled else [],
            'entries': found}


def with_entries(document: dict[str, Any], entries: Iterable[dict[str, Any]]
                 ) -> dict[str, Any]:
    """The same for a port of which Neutron says nothing any more."""
    return {**document, 'entries': sorted(
        entries, key=lambda one: int(one['key']))}


def address_set(key: str, networks: Iterable[str]) -> dict[str, Any]:
    """host_spec.AddressSet. What is beyond its size is not let in."""
    return {'version': host_spec.VERSION, 'id': key,
            'networks': list(networks)[:host_spec.ADDRESSES_MAX]}


def named_sets(document: dict[str, Any]) -> set[str]:
    """Ids of the address sets that a port's rules name."""
    return {rule['address_set'] for rule in document.get('rules', ())
            if rule['address_set']}
