# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl show: what the tables hold.

Each function of SUBJECTS returns (value for JSON, text for people).
"""

import collections
import errno
import sys

from octavia_xdp_provider.common import stdout
from octavia_xdp_provider.ctl import links
from octavia_xdp_provider.ctl import nat_flows
from octavia_xdp_provider.ctl import node as nodes
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.node import types
from octavia_xdp_provider.node.datapath import DatapathError


def _services(node, arguments):
    return [one for one in node.services()
            if nodes.matches(arguments, one.key)]


def _each(node, arguments, read):
    """(service, what read(key) says) of services that are still there."""
    for service in _services(node, arguments):
        try:
            yield service, read(service.key)
        except DatapathError as error:
            if error.errno != errno.ENOENT:
                raise


def _flags(flags):
    return [flag.name.lower() for flag in type(flags) if flag in flags]


def services(node, arguments):
    """Services, with their members' number and counters."""
    found = _services(node, arguments)
    value = [output.key(one.key) | {
        'members': one.members, 'enabled': one.enabled, 'slots': one.slots,
        'open_slots': one.open_slots, 'generation': one.generation,
        'encapsulation': one.settings.encapsulation.name.lower(),
        'flags': _flags(one.settings.flags)} | one.counters._asdict()
        | {'drops': one.drops, 'active': one.active} for one in found]
    return value, output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'MEMBERS', 'TAKING', 'SLOTS', 'OPEN',
         'ENCAPSULATION', 'PACKETS', 'BYTES', 'FLOWS', 'DROPS', 'ACTIVE'),
        [(*one.key, one.members, one.enabled, one.slots, one.open_slots,
          one.settings.encapsulation.name.lower(), *one.counters,
          one.drops, one.active) for one in found])


def members(node, arguments):
    """Members of the services."""
    value, rows = [], []
    for service, found in _each(node, arguments, node.members):
        for one in found:
            value.append(output.key(service.key) | {
                'address': one.address, 'member_port': one.port or None,
                'state': output.member_state(one),
                'weight': one.weight, 'backup': one.backup,
                'admin_up': one.admin_up, 'healthy': one.healthy,
                'known': one.known, 'takes_flows': one.takes_flows,
                'check': f'{one.check:016x}' if one.check else None,
                'mtu': one.mtu or None, 'index': one.index,
                'tunnel': one.tunnel and output.tunnel_value(one.tunnel)}
                | one.counters._asdict())
            rows.append((*service.key, str(one.name), output.member_state(one),
                         one.weight, one.backup, one.mtu or None,
                         one.tunnel and output.tunnel(one.tunnel),
                         *one.counters))
    return value, output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'MEMBER', 'STATE', 'WEIGHT', 'BACKUP',
         'MTU', 'TUNNEL', 'PACKETS', 'BYTES', 'FLOWS'), rows)


def shares(members_of, now, before):
    """(member, slots, slots of old flows, share of slots, share of weight)
    of each member; shares in per cent."""
    slots = len(now)
    held = collections.Counter(now)
    old = collections.Counter(before)
    weight = sum(one.weight for one in members_of if one.takes_flows)
    return [(one, held[str(one.name)], old[str(one.name)],
             100 * held[str(one.name)] / slots,
             100 * one.weight / weight if weight and one.takes_flows else 0.0)
            for one in members_of]


def tables(node, arguments):
    """Slots of each member, against its weight."""
    value, rows = [], []
    def read(key):
        return (*node.tables(key), node.members(key))

    for service, (now, before, members_of) in _each(node, arguments, read):
        found = shares(members_of, now, before)
        value.append(output.key(service.key) | {
            'slots': len(now), 'open_slots': service.open_slots,
            'generation': service.generation,
            'without_member': now.count(None),
            'members': [{
                'address': one.address, 'member_port': one.port or None,
                'slots': held, 'slots_before': old,
                'share_percent': share, 'weight': one.weight,
                'weight_percent': weight}
                for one, held, old, share, weight in found]})
        rows.extend((*service.key, str(one.name), held, share, weight, old)
                    for one, held, old, share, weight in found)
        if None in now:
            rows.append((*service.key, '(nobody)', now.count(None),
                         100 * now.count(None) / len(now), 0.0,
                         before.count(None)))
        rows.append((*service.key, f'= {len(now)} slots, '
                     f'{service.open_slots} open', None, None, None, None))
    return value, output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'MEMBER', 'SLOTS', 'SHARE %',
         'WEIGHT %', 'OLD FLOWS\' SLOTS'), rows)


def neighbours(node, arguments):
    """Uplinks and their next hops, and what the kernel knows of those."""
    uplinks, choices = node.uplinks()
    kernel = links.Links()
    value, rows = [], []
    for position, uplink in enumerate(uplinks):
        for version, mac, family in (
                (4, uplink.next_hop_mac_v4, choices.v4),
                (6, uplink.next_hop_mac_v6, choices.v6)):
            known = kernel.neighbours(uplink.ifindex, version, mac)
            share = 100 * family.count(position) / len(family)
            name = kernel.name(uplink.ifindex)
            value.append({
                'interface': name, 'ifindex': uplink.ifindex,
                'mtu': uplink.mtu, 'vlans': uplink.vlans,
                'own_mac': uplink.own_mac, 'family': version,
                'gateway_mac': mac, 'flows_percent': share,
                'kernel': [{'address': one.address, 'state': one.state,
                            'interface': one.interface} for one in known]})
            rows.append((
                name, ','.join(str(tag & 4095) for tag in uplink.vlans)
                or None, uplink.mtu, f'IPv{version}', mac, share,
                ', '.join(f'{one.address} {one.state}' for one in known)
                or None))
    return value, output.table(
        ('UPLINK', 'VLAN', 'MTU', 'FAMILY', 'NEXT HOP', 'FLOWS %',
         'IN THE KERNEL'), rows)


def programs(node, arguments):
    """Attached programs, and the versions of what is at work."""
    info = node.info()
    kernel = links.Links()
    counted = links.statistics_enabled()
    value = {
        'interface_version': node.library.api.OXP_API_VERSION,
        'layout': info.layout, 'statistics': counted, 'programs': []}
    rows = []
    for one in node.programs():
        loaded = links.since_boot(one.loaded_ns)
        mode = kernel.xdp_mode(one.ifindex, one.id)
        value['programs'].append({
            'interface': kernel.name(one.ifindex), 'ifindex': one.ifindex,
            'mode': mode, 'id': one.id, 'name': one.name, 'tag': one.tag,
            'loaded': loaded, 'runs': one.runs if counted else None,
            'run_time_ns': one.run_time_ns if counted else None})
        rows.append((
            kernel.name(one.ifindex), mode, one.id, one.name, one.tag,
            loaded, one.runs if counted else None,
            one.run_time_ns / one.runs if counted and one.runs else None))
    text = output.table(
        ('INTERFACE', 'MODE', 'ID', 'NAME', 'TAG', 'LOADED', 'RUNS',
         'NS PER RUN'), rows)
    text += (f'\n\nMap layout {info.layout}, library interface '
             f'{node.library.api.OXP_API_VERSION}.')
    if not counted:
        text += ('\nRuns are not counted: sysctl kernel.bpf_stats_enabled=1 '
                 'counts them, and slows every packet down.')
    return value, text


def _settings_rows(node):
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


def settings(node, arguments):
    """Settings of the node and its services, and sizes."""
    info = node.info()
    found, networks = [], {}
    for one, allowed in _each(node, arguments, node.allowed):
        found.append(one)
        networks[one.key] = allowed
    value = {
        'node': node.node_settings()._asdict() | {
            'flags': _flags(node.node_settings().flags)},
        'sizes': info._asdict(),
        'services': [output.key(one.key) | one.settings._asdict() | {
            'slots': one.slots, 'flags': _flags(one.settings.flags),
            'encapsulation': one.settings.encapsulation.name.lower(),
            'allowed': networks[one.key] or None} for one in found]}
    rows = [(name, str(output.cell(one)))
            for name, one in _settings_rows(node)]
    rows += [('services', f'{info.services} of {info.services_max}'),
             ('members', f'{info.members} of {info.members_max}'),
             ('slots at most', str(info.slots_max)),
             ('flows at most', str(info.flows_max)),
             ('memory of the maps, bytes', str(info.map_bytes))]
    text = output.table(('SETTING', 'VALUE'), rows)
    text += '\n\n' + output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'ENCAPSULATION', 'FLAGS', 'IDLE S',
         'NEW FLOWS/S', 'BURST', 'ALLOWED'),
        [(*one.key, one.settings.encapsulation.name.lower(),
          ','.join(_flags(one.settings.flags)) or None,
          one.settings.idle_timeout_s, one.settings.new_flow_rate or None,
          one.settings.new_flow_burst or None,
          _some(networks[one.key])) for one in found])
    return value, text


def _some(networks, limit=3):
    if not networks:
        return 'all'
    more = len(networks) - limit
    return ','.join(networks[:limit]) + (f' and {more} more'
                                         if more > 0 else '')


def counters(node, arguments):
    """What became of packets, and the services' share."""
    outcomes = {one.name.lower(): counted._asdict()
                for one, counted in node.outcomes().items() if one > 1}
    value = {'outcomes': outcomes, 'services': [
        output.key(one.key) | one.counters._asdict()
        | {'drops': one.drops, 'members': [
            {'address': member.address, 'member_port': member.port or None}
            | member.counters._asdict() for member in found]}
        for one, found in _each(node, arguments, node.members)]}
    rows = []
    for one in value['services']:
        key = one['vip'], one['protocol'], one['port']
        rows.append((*key, '(all)', one['packets'], one['bytes'],
                     one['flows']))
        rows.extend((*key, str(types.MemberName(
            member['address'], member['member_port'] or 0)),
            member['packets'], member['bytes'], member['flows'])
                    for member in one['members'])
    return value, (
        output.table(('OUTCOME', 'PACKETS', 'BYTES'),
                     [(name, one['packets'], one['bytes'])
                      for name, one in outcomes.items()]) + '\n\n'
        + output.table(('VIP', 'PROTOCOL', 'PORT', 'MEMBER', 'PACKETS',
                        'BYTES', 'FLOWS'), rows))


SUBJECTS = {function.__name__: function for function in (
    services, members, tables, neighbours, programs, settings, counters,
    nat_flows.nat)}


def run(node, arguments):
    value, text = SUBJECTS[arguments.subject](node, arguments)
    if nodes.are_given(arguments) and not _services(node, arguments):
        print('octavia-xdp-ctl: this node has no such service',
              file=sys.stderr)
    stdout.say(output.dump(value) if arguments.json else text)
    return 0
