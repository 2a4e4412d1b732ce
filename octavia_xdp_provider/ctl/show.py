# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl show: what the tables hold.

Each function of SUBJECTS returns (value for JSON, text for people).
"""

import argparse
import collections
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import enum
import errno
import sys
from typing import Any
from typing import TypeVar

from octavia_xdp_provider.ctl import links
from octavia_xdp_provider.ctl import nat_flows
from octavia_xdp_provider.ctl import node as nodes
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node import types
from octavia_xdp_provider.node.datapath import DatapathError
from octavia_xdp_provider.process import stdout

ReadT = TypeVar('ReadT')
Shown = tuple[Any, str]


def _services(node: inspection.Inspection, arguments: argparse.Namespace
              ) -> list[types.Service]:
    return [service for service in node.services()
            if nodes.matches(arguments, service.key)]


def _each(node: inspection.Inspection, arguments: argparse.Namespace,
          read: Callable[[types.Key], ReadT]
          ) -> Iterator[tuple[types.Service, ReadT]]:
    """Yield (service, read(key)) for services that still exist."""
    for service in _services(node, arguments):
        try:
            yield service, read(service.key)
        except DatapathError as error:
            if error.errno != errno.ENOENT:
                raise


def _flags(flags: enum.IntFlag) -> list[str]:
    return [str(flag.name).lower() for flag in type(flags) if flag in flags]


def services(node: inspection.Inspection, arguments: argparse.Namespace
            ) -> Shown:
    """Services, with their members' number and counters."""
    shown = _services(node, arguments)
    value = [output.key(service.key) | {
        'members': service.members, 'enabled': service.enabled,
        'slots': service.slots, 'open_slots': service.open_slots,
        'generation': service.generation,
        'encapsulation': service.settings.encapsulation.name.lower(),
        'flags': _flags(service.settings.flags)} | service.counters._asdict()
        | {'drops': service.drops, 'active': service.active,
           'flow_table_full': service.flow_table_full}
        for service in shown]
    return value, output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'MEMBERS', 'TAKING', 'SLOTS', 'OPEN',
         'ENCAPSULATION', 'PACKETS', 'BYTES', 'FLOWS', 'DROPS', 'ACTIVE',
         'TABLE-FULL'),
        [(*service.key, service.members, service.enabled, service.slots,
          service.open_slots, service.settings.encapsulation.name.lower(),
          *service.counters, service.drops, service.active,
          service.flow_table_full)
         for service in shown])


def members(node: inspection.Inspection, arguments: argparse.Namespace
           ) -> Shown:
    """Members of the services."""
    value: list[Any] = []
    rows: list[tuple[Any, ...]] = []
    for service, service_members in _each(node, arguments, node.members):
        for member in service_members:
            value.append(output.key(service.key) | {
                'address': member.address, 'member_port': member.port or None,
                'state': output.member_state(member),
                'weight': member.weight, 'backup': member.backup,
                'admin_up': member.admin_up, 'healthy': member.healthy,
                'known': member.known, 'takes_flows': member.takes_flows,
                'check': f'{member.check:016x}' if member.check else None,
                'mtu': member.mtu or None, 'index': member.index,
                'tunnel': member.tunnel and output.tunnel_value(member.tunnel)}
                | member.counters._asdict())
            rows.append((*service.key, str(member.name),
                         output.member_state(member), member.weight,
                         member.backup, member.mtu or None,
                         member.tunnel and output.tunnel(member.tunnel),
                         *member.counters))
    return value, output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'MEMBER', 'STATE', 'WEIGHT', 'BACKUP',
         'MTU', 'TUNNEL', 'PACKETS', 'BYTES', 'FLOWS'), rows)


def shares(members_of: Sequence[types.MemberState],
           now: Sequence[str | None], before: Sequence[str | None]
           ) -> list[tuple[types.MemberState, int, int, float, float]]:
    """Return (member, slots, slots of old flows, share of slots, share of
    weight) of each member; shares in per cent."""
    slots = len(now)
    held = collections.Counter(now)
    old = collections.Counter(before)
    weight = sum(member.weight for member in members_of if member.takes_flows)
    return [(member, held[str(member.name)], old[str(member.name)],
             100 * held[str(member.name)] / slots,
             100 * member.weight / weight
             if weight and member.takes_flows else 0.0)
            for member in members_of]


def tables(node: inspection.Inspection, arguments: argparse.Namespace
          ) -> Shown:
    """Slots of each member, against its weight."""
    value: list[Any] = []
    rows: list[tuple[Any, ...]] = []
    def read(key: types.Key) -> tuple[list[str | None], list[str | None],
                                      list[types.MemberState]]:
        return (*node.tables(key), node.members(key))

    for service, (now, before, members_of) in _each(node, arguments, read):
        member_shares = shares(members_of, now, before)
        value.append(output.key(service.key) | {
            'slots': len(now), 'open_slots': service.open_slots,
            'generation': service.generation,
            'without_member': now.count(None),
            'members': [{
                'address': member.address, 'member_port': member.port or None,
                'slots': held, 'slots_before': old,
                'share_percent': share, 'weight': member.weight,
                'weight_percent': weight}
                for member, held, old, share, weight in member_shares]})
        rows.extend((*service.key, str(member.name), held, share, weight, old)
                    for member, held, old, share, weight in member_shares)
        if None in now:
            rows.append((*service.key, '(nobody)', now.count(None),
                         100 * now.count(None) / len(now), 0.0,
                         before.count(None)))
        rows.append((*service.key, f'= {len(now)} slots, '
                     f'{service.open_slots} open', None, None, None, None))
    return value, output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'MEMBER', 'SLOTS', 'SHARE %',
         'WEIGHT %', 'OLD FLOWS\' SLOTS'), rows)


def neighbours(node: inspection.Inspection, arguments: argparse.Namespace
              ) -> Shown:
    """Uplinks and their next hops, and what the kernel knows of those."""
    uplinks, choices = node.uplinks()
    kernel = links.Links()
    value: list[Any] = []
    rows: list[tuple[Any, ...]] = []
    for position, uplink in enumerate(uplinks):
        for version, mac, family in (
                (4, uplink.next_hop_mac_v4, choices.v4),
                (6, uplink.next_hop_mac_v6, choices.v6)):
            entries = kernel.neighbours(uplink.ifindex, version, mac)
            share = 100 * family.count(position) / len(family)
            name = kernel.name(uplink.ifindex)
            value.append({
                'interface': name, 'ifindex': uplink.ifindex,
                'mtu': uplink.mtu, 'vlans': uplink.vlans,
                'own_mac': uplink.own_mac, 'family': version,
                'gateway_mac': mac, 'flows_percent': share,
                'kernel': [{'address': entry.address, 'state': entry.state,
                            'interface': entry.interface}
                           for entry in entries]})
            rows.append((
                name, ','.join(str(tag & 4095) for tag in uplink.vlans)
                or None, uplink.mtu, f'IPv{version}', mac, share,
                ', '.join(f'{entry.address} {entry.state}'
                          for entry in entries) or None))
    return value, output.table(
        ('UPLINK', 'VLAN', 'MTU', 'FAMILY', 'NEXT HOP', 'FLOWS %',
         'IN THE KERNEL'), rows)


def programs(node: inspection.Inspection, arguments: argparse.Namespace
            ) -> Shown:
    """Attached programs, and the versions of what is at work."""
    info = node.info()
    kernel = links.Links()
    counted = links.statistics_enabled()
    value: dict[str, Any] = {
        'interface_version': node.library.api.OXP_API_VERSION,
        'layout': info.layout, 'statistics': counted, 'programs': []}
    rows: list[tuple[Any, ...]] = []
    for program in node.programs():
        loaded = links.since_boot(program.loaded_ns)
        mode = kernel.xdp_mode(program.ifindex, program.id)
        value['programs'].append({
            'interface': kernel.name(program.ifindex),
            'ifindex': program.ifindex, 'mode': mode, 'id': program.id,
            'name': program.name, 'tag': program.tag, 'loaded': loaded,
            'runs': program.runs if counted else None,
            'run_time_ns': program.run_time_ns if counted else None})
        rows.append((
            kernel.name(program.ifindex), mode, program.id, program.name,
            program.tag, loaded, program.runs if counted else None,
            program.run_time_ns / program.runs
            if counted and program.runs else None))
    text = output.table(
        ('INTERFACE', 'MODE', 'ID', 'NAME', 'TAG', 'LOADED', 'RUNS',
         'NS PER RUN'), rows)
    text += (f'\n\nMap layout {info.layout}, library interface '
             f'{node.library.api.OXP_API_VERSION}.')
    if not counted:
        text += ('\nRuns are not counted: sysctl kernel.bpf_stats_enabled=1 '
                 'counts them, and slows every packet down.')
    return value, text


def _settings_rows(node: inspection.Inspection) -> list[tuple[str, Any]]:
    settings = node.node_settings()
    return [
        ('outer source IPv4', settings.source_v4),
        ('outer source IPv6', settings.source_v6),
        ('entropy IPv4, bits', settings.entropy_v4),
        ('entropy IPv6, bits', settings.entropy_v6),
        ('echo replies', types.NodeFlag.ECHO in settings.flags),
        ('MSS clamping', types.NodeFlag.CLAMP_MSS in settings.flags),
        ('too big without DF',
         'pass' if types.NodeFlag.PASS_TOO_BIG in settings.flags
         else 'drop'),
        ('next hop', 'routes' if types.NodeFlag.FIB in settings.flags
         else 'uplinks'),
        ('ICMP per second and CPU', settings.icmp_rate)]


def settings(node: inspection.Inspection, arguments: argparse.Namespace
            ) -> Shown:
    """Settings of the node and its services, and sizes."""
    info = node.info()
    shown: list[types.Service] = []
    networks: dict[types.Key, list[str]] = {}
    for service, allowed in _each(node, arguments, node.allowed):
        shown.append(service)
        networks[service.key] = allowed
    value = {
        'node': node.node_settings()._asdict() | {
            'flags': _flags(node.node_settings().flags)},
        'sizes': info._asdict(),
        'services': [output.key(service.key) | service.settings._asdict() | {
            'slots': service.slots, 'flags': _flags(service.settings.flags),
            'encapsulation': service.settings.encapsulation.name.lower(),
            'allowed': networks[service.key] or None} for service in shown]}
    rows = [(name, str(output.cell(setting)))
            for name, setting in _settings_rows(node)]
    rows += [('services', f'{info.services} of {info.services_max}'),
             ('members', f'{info.members} of {info.members_max}'),
             ('slots at most', str(info.slots_max)),
             ('flows at most', str(info.flows_max)),
             ('memory of the maps, bytes', str(info.map_bytes))]
    text = output.table(('SETTING', 'VALUE'), rows)
    text += '\n\n' + output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'ENCAPSULATION', 'FLAGS', 'IDLE S',
         'NEW FLOWS/S', 'BURST', 'ALLOWED'),
        [(*service.key, service.settings.encapsulation.name.lower(),
          ','.join(_flags(service.settings.flags)) or None,
          service.settings.idle_timeout_s,
          service.settings.new_flow_rate or None,
          service.settings.new_flow_burst or None,
          _abbreviate(networks[service.key])) for service in shown])
    return value, text


def _abbreviate(networks: Sequence[str], limit: int = 3) -> str:
    if not networks:
        return 'all'
    more = len(networks) - limit
    return ','.join(networks[:limit]) + (f' and {more} more'
                                         if more > 0 else '')


def counters(node: inspection.Inspection, arguments: argparse.Namespace
            ) -> Shown:
    """What became of packets, and the services' share."""
    outcomes = {outcome.name.lower(): counted._asdict()
                for outcome, counted in node.outcomes().items() if outcome > 1}
    value: dict[str, Any] = {'outcomes': outcomes, 'services': [
        output.key(service.key) | service.counters._asdict()
        | {'drops': service.drops, 'members': [
            {'address': member.address, 'member_port': member.port or None}
            | member.counters._asdict() for member in service_members]}
        for service, service_members in _each(node, arguments, node.members)]}
    rows: list[tuple[Any, ...]] = []
    for service in value['services']:
        key = service['vip'], service['protocol'], service['port']
        rows.append((*key, '(all)', service['packets'], service['bytes'],
                     service['flows']))
        rows.extend((*key, str(types.MemberName(
            member['address'], member['member_port'] or 0)),
            member['packets'], member['bytes'], member['flows'])
                    for member in service['members'])
    return value, (
        output.table(('OUTCOME', 'PACKETS', 'BYTES'),
                     [(name, counted['packets'], counted['bytes'])
                      for name, counted in outcomes.items()]) + '\n\n'
        + output.table(('VIP', 'PROTOCOL', 'PORT', 'MEMBER', 'PACKETS',
                        'BYTES', 'FLOWS'), rows))


SUBJECTS: dict[str, Callable[
        [inspection.Inspection, argparse.Namespace], Shown]] = {
    function.__name__: function for function in (
    services, members, tables, neighbours, programs, settings, counters,
    nat_flows.nat)}


def run(node: inspection.Inspection, arguments: argparse.Namespace) -> int:
    value, text = SUBJECTS[arguments.subject](node, arguments)
    if nodes.are_given(arguments) and not _services(node, arguments):
        print('octavia-xdp-ctl: this node has no such service',
              file=sys.stderr)
    stdout.say(output.dump(value) if arguments.json else text)
    return 0
