# SPDX-License-Identifier: Apache-2.0
"""Converts a port's document to what the datapath takes."""

import collections.abc
import ipaddress
import typing

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.host import types

# Bytes of the IP and TCP headers, without options, by IP version.
_HEADERS = {4: 40, 6: 60}
_ALL_PORTS = (0, 65535)

Document = collections.abc.Mapping[str, typing.Any]


class Plan(typing.NamedTuple):
    """The wanted state of a port. ``entries``: by key."""

    id: str
    open: bool
    rules: tuple[types.Rule, ...]
    entries: dict[int, types.Entry]


def plan(document: Document,
         number: collections.abc.Callable[[str], int | None]) -> Plan:
    """:param document: a checked host_spec.Port.

    :param number: returns an address set's number for its id, or None if the
        set is unknown: its rules admit no address and are left out.
    """
    rules = (_rule(rule, number) for rule in document['rules'])
    entries = {entry['key']: _entry(document, entry)
               for entry in document['entries']}
    return Plan(document['id'], document['open'],
                tuple(rule for rule in rules if rule is not None), entries)


def _rule(rule: Document,
          number: collections.abc.Callable[[str], int | None]
          ) -> types.Rule | None:
    set_number = 0
    if rule['address_set'] is not None:
        known = number(rule['address_set'])
        if known is None:
            return None
        set_number = known
    protocol = rule['protocol']
    return types.Rule(
        rule['ip_version'],
        types.PROTOCOL_NAMES[protocol] if protocol is not None else None,
        tuple(rule['ports']) if rule['ports'] else _ALL_PORTS,
        rule['remote_network'], set_number)


def _entry(document: Document, entry: Document) -> types.Entry:
    protocol = types.PROTOCOL_NAMES[entry['protocol']]
    version = 6 if ':' in entry['address'] else 4
    return types.Entry(
        entry['key'], document['id'], _canonical(entry['vip']),
        entry['vip_port'], _canonical(entry['address']), entry['port'],
        protocol, document['mac'], entry['gateway_mac'],
        document['mtu'] - _HEADERS[version]
        if entry['protocol'] == host_spec.TCP else 0)


def _canonical(address: str) -> str:
    """Return the address as the datapath lists it."""
    return str(ipaddress.ip_address(address))


def same_name(one: types.Entry, other: types.Entry) -> bool:
    """Whether both entries are of the same listener at the same member, so
    that one can be updated to the other and keep its flows."""
    return _name(one) == _name(other)


def _name(entry: types.Entry) -> tuple[typing.Any, ...]:
    return (entry.port_id, entry.vip, entry.vip_port, entry.fixed, entry.port,
            entry.protocol)
