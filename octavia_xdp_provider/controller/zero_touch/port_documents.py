# SPDX-License-Identifier: Apache-2.0
"""Builds documents of hypervisors from Neutron's ports and load balancers."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import ipaddress
from typing import Any

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.zero_touch import tokens

_PROTOCOLS = {'TCP': host_spec.TCP, 'HTTPS': host_spec.TCP,
              'UDP': host_spec.UDP, 'SCTP': host_spec.SCTP}


def rules(port: findings.Port, versions: Collection[int]
          ) -> list[dict[str, Any]]:
    """Return the rules of a port's security groups, without those of
    protocols that listeners cannot have.

    :param versions: IP versions of the VIPs.
    """
    return [_rule(rule) for rule in port.rules
            if rule.ip_version in versions
            and rule.protocol in (None, *_PROTOCOLS.values())]


def fixed(port: findings.Port, vip: str) -> findings.Fixed | str:
    """Return the address of a member's port for packets of a VIP.

    It is the member's own address, unless the VIP is of the other IP version.

    :returns: a text that tells why there is none, otherwise.
    """
    version = ipaddress.ip_address(vip).version
    if ipaddress.ip_address(port.address).version == version:
        return findings.Fixed(port.address, port.gateway_mac)
    others = [other for other in port.others
              if ipaddress.ip_address(other.address).version == version]
    if not others:
        return (f'its port has no IPv{version} address, to which packets for '
                f'VIP {vip} could go: give it one, or leave the VIP out')
    if len(others) > 1:
        addresses = ' and '.join(other.address for other in others)
        return (f'its port has several IPv{version} addresses, {addresses}, '
                f'and it is ambiguous which is to serve VIP {vip}: leave one '
                'of them')
    if others[0].gateway_mac is None:
        return (f'no router\'s port has the gateway address of the subnet of '
                f'{others[0].address}, by which VIP {vip} would be answered: '
                'add the subnet to a router')
    return others[0]


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
    """Return a host_spec.Entry without its key.

    :param vip: a normalized address for which the port has an address.
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


def token_entry(document: spec.Document, pool_id: str, member_id: str,
                port: findings.Port, token: str) -> dict[str, Any]:
    """Return a host_spec.Entry of proxy nodes without its key."""
    member = document['pools'][pool_id]['members'][member_id]
    target = fixed(port, member['address'])
    assert isinstance(target, findings.Fixed)
    return {'load_balancer_id': document['id'], 'listener_id': pool_id,
            'member_id': member_id, 'vip': token,
            'vip_port': member['protocol_port'], 'address': target.address,
            'port': member['protocol_port'], 'protocol': host_spec.TCP,
            'gateway_mac': target.gateway_mac,
            'judged_as': tokens.judged_as(document, member['address'])}


def port_document(port: findings.Port, mtu: int,
                  entries: Iterable[dict[str, Any]],
                  sets: Mapping[str, Iterable[str]],
                  sources: Iterable[Any] = ()) -> dict[str, Any]:
    """Return a host_spec.Port.

    :param sets: id → networks of the known sets.
    :param sources: networks of proxy nodes.
    """
    ordered = _ordered(entries)
    versions = {ipaddress.ip_address(entry['vip']).version
                for entry in ordered}
    admitted = rules(port, versions) if port.security_enabled else []
    return {'version': host_spec.VERSION, 'id': port.id, 'mac': port.mac,
            'mtu': mtu, 'open': not port.security_enabled,
            'rules': [*admitted, *_rules_of_proxies(
                admitted, ordered, sets, list(sources))],
            'entries': ordered}


def _rules_of_proxies(admitted: list[dict[str, Any]],
                      entries: list[dict[str, Any]],
                      sets: Mapping[str, Iterable[str]],
                      sources: list[Any]) -> list[dict[str, Any]]:
    """Return rules for connections of proxy nodes to members whose groups
    admit the VIP itself."""
    result: list[dict[str, Any]] = []
    for entry in entries:
        vip = ipaddress.ip_address(entry.get('judged_as', '::'))
        if 'judged_as' not in entry or not any(
                _admits(rule, vip, entry['port'], sets) for rule in admitted):
            continue
        result += [rule for source in sources
                   if source.version == vip.version and (rule := {
                       'ip_version': source.version,
                       'protocol': host_spec.TCP,
                       'ports': [entry['port'], entry['port']],
                       'remote_network': str(source),
                       'address_set': None}) not in result]
    return result


def _admits(rule: dict[str, Any], source: Any, port: int,
            sets: Mapping[str, Iterable[str]]) -> bool:
    if (rule['ip_version'] != source.version
            or rule['protocol'] not in (None, host_spec.TCP)):
        return False
    if rule['ports'] and not rule['ports'][0] <= port <= rule['ports'][1]:
        return False
    if rule['address_set']:
        return any(source in ipaddress.ip_network(network)
                   for network in sets.get(rule['address_set'], ()))
    return rule['remote_network'] is None or (
        source in ipaddress.ip_network(rule['remote_network']))


def _ordered(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(entries, key=lambda entry: int(entry['key']))


def with_entries(document: dict[str, Any], entries: Iterable[dict[str, Any]]
                 ) -> dict[str, Any]:
    """Return the document with other entries, for a port that was not looked
    up."""
    return {**document, 'entries': _ordered(entries)}


def address_set(key: str, networks: Iterable[str]) -> dict[str, Any]:
    """Return a host_spec.AddressSet without networks beyond its size."""
    return {'version': host_spec.VERSION, 'id': key,
            'networks': list(networks)[:host_spec.ADDRESSES_MAX]}


def named_sets(document: dict[str, Any]) -> set[str]:
    """Return the ids of the address sets that a port's rules name."""
    return {rule['address_set'] for rule in document.get('rules', ())
            if rule['address_set']}
