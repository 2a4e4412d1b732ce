# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-host show: what the hypervisor's datapath holds."""

import collections.abc
import socket
import typing

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.host import facts as facts_module
from octavia_xdp_provider.host import types
from octavia_xdp_provider.process import output
from octavia_xdp_provider.process import stdout

_TEXTS = {entry.name.lower(): entry.text for entry
          in enumerations.CONTRACT[enumerations.HOST_OUTCOME]}
_TABLES = {types.Table.CONFIRMED: 'confirmed',
           types.Table.HALF_OPEN: 'half-open'}

Rows = list[dict[str, typing.Any]]


def ports(host: typing.Any, arguments: typing.Any) -> Rows:
    """ports of Neutron's that have members, their taps and rules"""
    facts = facts_module.read(host)
    members: dict[str, int] = {}
    for item in facts.entries:
        members[item.entry.port_id] = members.get(item.entry.port_id, 0) + 1
    return [{'port': port.id, 'interface': interface(port.ifindex),
             'ifindex': port.ifindex or None,
             'entries': members.get(port.id, 0), 'rules': port.rules,
             'open': port.open, 'flows': port.flows,
             'flows_max': port.flows_max,
             'drops': sum(facts.drops.get(port.id, {}).values())}
            for port in facts.ports if _takes(arguments, port.id)]


def entries(host: typing.Any, arguments: typing.Any) -> Rows:
    """listeners at members: keys, addresses, and what they carried"""
    return [{'key': state.entry.key, 'port': state.entry.port_id,
             'protocol': state.entry.protocol,
             'vip': end(state.entry.vip, state.entry.vip_port),
             'member': end(state.entry.fixed, state.entry.port),
             'mac': state.entry.mac, 'gateway_mac': state.entry.gateway_mac,
             'mss': state.entry.mss or None, 'flows': state.flows,
             'packets_in': state.packets_in, 'bytes_in': state.bytes_in,
             'packets_out': state.packets_out, 'bytes_out': state.bytes_out,
             'drops': state.drops} for state in host.entries()
            if _takes(arguments, state.entry.port_id)]


def flows(host: typing.Any, arguments: typing.Any) -> Rows:
    """flows that are known: of clients, and, while a VM arrives, direct ones
    """
    known = {state.entry.key: state.entry for state in host.entries()}
    rows = []
    for table, name in _TABLES.items():
        for flow in host.flows(table):
            if not _takes(arguments, flow.port_id):
                continue
            entry = known.get(flow.key)
            rows.append({
                'state': 'direct' if flow.direct else name,
                'client': end(flow.client, flow.client_port),
                'key': flow.key or None, 'port': flow.port_id,
                'protocol': entry and entry.protocol,
                'vip': entry and end(entry.vip, entry.vip_port),
                'member': entry and end(entry.fixed, entry.port),
                'idle_s': flow.idle, 'answered': flow.answered,
                'closing': flow.closing, 'outdated': flow.outdated})
    return rows


def drops(host: typing.Any, arguments: typing.Any) -> Rows:
    """packets that were dropped, by port and reason"""
    facts = facts_module.read(host)
    dropped: list[tuple[str | None, str, int]] = [
        (port, outcome, packets)
        for port, outcomes in sorted(facts.drops.items())
        for outcome, packets in sorted(outcomes.items())]
    dropped += [(None, outcome, packets)
                for outcome, packets in sorted(facts.unclaimed().items())]
    return [{'port': port, 'outcome': outcome, 'packets': packets,
             'meaning': _TEXTS[outcome]}
            for port, outcome, packets in dropped
            if packets and ((port is None and not arguments.port)
                            or (port is not None
                            and _takes(arguments, port)))]


SUBJECTS: dict[str, collections.abc.Callable[
    [typing.Any, typing.Any], Rows]] = {
        'ports': ports, 'entries': entries, 'flows': flows, 'drops': drops}
# Columns of tables; JSON has all fields.
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
    """Return the name of an interface; None if it is gone."""
    try:
        return socket.if_indextoname(ifindex) if ifindex else None
    except OSError:
        return None
