# SPDX-License-Identifier: Apache-2.0
"""Documents of hypervisors, from what Neutron has and load balancers want."""

from collections.abc import Iterable
import ipaddress
from typing import Any

from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.neutron_ports import findings

_PROTOCOLS = {'TCP': host_spec.TCP, 'HTTPS': host_spec.TCP,
              'UDP': host_spec.UDP, 'SCTP': host_spec.SCTP}


def rules(port: findings.Port) -> list[dict[str, Any]]:
    """What a port's security groups let in, of what listeners can be sent:
    of the member's IP version and of their protocols."""
    version = ipaddress.ip_address(port.address).version
    return [_rule(rule) for rule in port.rules
            if rule.ip_version == version
            and rule.protocol in (None, *_PROTOCOLS.values())]


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
          member: spec.Member, port: findings.Port) -> dict[str, Any]:
    """host_spec.Entry without its key."""
    listener = document['listeners'][listener_id]
    return {'load_balancer_id': document['id'], 'listener_id': listener_id,
            'member_id': member_id,
            'vip': str(ipaddress.ip_address(document['vip_address'])),
            'vip_port': listener['protocol_port'], 'address': port.address,
            'port': member['protocol_port'],
            'protocol': _PROTOCOLS[listener['protocol']],
            'gateway_mac': port.gateway_mac}


def port_document(port: findings.Port, mtu: int,
                  entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """host_spec.Port."""
    return {'version': host_spec.VERSION, 'id': port.id, 'mac': port.mac,
            'mtu': mtu, 'open': not port.security_enabled,
            'rules': rules(port) if port.security_enabled else [],
            'entries': sorted(entries, key=lambda one: int(one['key']))}


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
