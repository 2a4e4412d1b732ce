# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-host show: what the hypervisor's datapath holds."""

import collections.abc
import socket
import typing

from octavia_xdp_provider.common import enumerations
from octavia_xdp_provider.common import output
from octavia_xdp_provider.common import stdout
from octavia_xdp_provider.host import facts as facts_module
from octavia_xdp_provider.host import types

_TEXTS = {entry.name.lower(): entry.text for entry
          in enumerations.CONTRACT[enumerations.HOST_OUTCOME]}
_TABLES = {types.Table.CONFIRMED: 'confirmed',
           types.Table.HALF_OPEN: 'half-open'}

Rows = list[dict[str, typing.Any]]


def ports(host: typing.Any, arguments: typing.Any) -> Rows:
    """ports of Neutron's that have members, their taps and rules"""
    facts = facts_module.read(host)
    members: dict[str, int] = {}
    for one in facts.entries:
        members[one.entry.port_id] = members.get(one.entry.port_id, 0) + 1
    return [{'port': one.id, 'interface': interface(one.ifindex),
             'ifindex': one.ifindex or None,
             'entries': members.get(one.id, 0), 'rules': one.rules,
             'open': one.open, 'flows': one.flows,
             'flows_max': one.flows_max,
             'drops': sum(facts.drops.get(one.id, {}).values())}
            for one in facts.ports if _takes(arguments, one.id)]


def entries(host: typing.Any, arguments: typing.Any) -> Rows:
    """listeners at members: keys, addresses, and what they carried"""
    return [{'key': one.entry.key, 'port': one.entry.port_id,
             'protocol': one.entry.protocol,
             'vip': end(one.entry.vip, one.entry.vip_port),
             'member': end(one.entry.fixed, one.entry.port),
             'mac': one.entry.mac, 'gateway_mac': one.entry.gateway_mac,
             'mss': one.entry.mss or None, 'flows': one.flows,
             'packets_in': one.packets_in, 'bytes_in': one.bytes_in,
             'packets_out': one.packets_out, 'bytes_out': one.bytes_out,
             'drops': one.drops}
            for one in host.entries() if _takes(arguments, one.entry.port_id)]


def flows(host: typing.Any, arguments: typing.Any) -> Rows:
    """flows that are known: of clients, and, while a VM arrives, direct ones
    """
    known = {one.entry.key: one.entry for one in host.entries()}
    found = []
    for table, name in _TABLES.items():
        for flow in host.flows(table):
            if not _takes(arguments, flow.port_id):
                continue
            entry = known.get(flow.key)
            found.append({
                'state': 'direct' if flow.direct else name,
                'client': end(flow.client, flow.client_port),
                'key': flow.key or None, 'port': flow.port_id,
                'protocol': entry and entry.protocol,
                'vip': entry and end(entry.vip, entry.vip_port),
                'member': entry and end(entry.fixed, entry.port),
                'idle_s': flow.idle, 'answered': flow.answered,
                'closing': flow.closing, 'outdated': flow.outdated})
    return found


def drops(host: typing.Any, arguments: typing.Any) -> Rows:
    """packets that were dropped, by port and reason"""
    facts = facts_module.read(host)
    found: list[tuple[str | None, str, int]] = [
        (port, outcome, packets)
        for port, outcomes in sorted(facts.drops.items())
        for outcome, packets in sorted(outcomes.items())]
    found += [(None, outcome, packets)
              for outcome, packets in sorted(facts.unclaimed().items())]
    return [{'port': port, 'outcome': outcome, 'packets': packets,
             'meaning': _TEXTS[outcome]}
            for port, outcome, packets in found
            if packets and ((port is None and not arguments.port)
                            or (port is not None
                            and _takes(arguments, port)))]


SUBJECTS: dict[str, collections.abc.Callable[
    [typing.Any, typing.Any], Rows]] = {
        'ports': ports, 'entries': entries, 'flows': flows, 'drops': drops}
# What a table shows; JSON has all.
COLUMNS = {
    'ports': ('port', 'interface', 'entries', 'rules', 'open', 'flows',
              'drops'),
    'entries': ('key', 'port', 'protocol', 'vip', 'member', 'flows',
                'packets_in', 'packets_out', 'drops'),
    'flows': ('state', 'protocol', 'client', 'vip', 'member', 'key',
              'idle_s'),
    'drops': ('port', 'outcome', 'packets', 'meaning')}


def run(place: typing.Any, arguments: typing.Any) -> int:
    host = place.open()
    try:
        rows = SUBJECTS[arguments.subject](host, arguments)
    finally:
        host.close()
    if arguments.format == 'json':
        stdout.say(output.dump(rows))
        return 0
    columns = COLUMNS[arguments.subject]
    stdout.say(output.table(
        [name.upper().replace('_', ' ') for name in columns],
        [[row[name] for name in columns] for row in rows]))
    return 0


def _takes(arguments: typing.Any, port_id: str | None) -> bool:
    return arguments.port is None or arguments.port == port_id


def end(address: str, port: int) -> str:
    return f'[{address}]:{port}' if ':' in address else f'{address}:{port}'


def interface(ifindex: int) -> str | None:
    """Its name; None if it is gone."""
    try:
        return socket.if_indextoname(ifindex) if ifindex else None
    except OSError:
        return None
