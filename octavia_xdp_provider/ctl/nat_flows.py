# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl show nat: flows of NAT, and what of the pools they take."""

from octavia_xdp_provider.ctl import node as nodes
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.node import types

# Flows that are shown; a node may have millions.
SHOWN_MAX = 1000


def _flows(node, arguments):
    """(flows, at most SHOWN_MAX; how many there are)"""
    if not nodes.are_given(arguments):
        return node.nat_flows(SHOWN_MAX)
    shown, count = [], 0
    for service in node.services():
        if (types.ServiceFlag.NAT in service.settings.flags and
                nodes.matches(arguments, service.key)):
            found, there = node.nat_flows(SHOWN_MAX, service=service.key)
            shown += found[:SHOWN_MAX - len(shown)]
            count += there
    return shown, count


def _value(one):
    return output.key(one.service) | {
        'client': one.client, 'client_port': one.client_port,
        'pool': one.pool, 'pool_port': one.pool_port,
        'member': one.member, 'member_port': one.member_port,
        'state': one.state.name.lower(), 'idle_s': one.idle,
        'expires_s': one.expires}


def _end(address, port):
    return f'[{address}]:{port}' if ':' in address else f'{address}:{port}'


def _told(timeouts):
    return 'time-outs: ' + ', '.join(
        f'{name} {seconds} s' for name, seconds in timeouts.items()) + (
        '; established: "show settings"')


def nat(node, arguments):
    """Pools, time-outs, how much of the pools is used, and flows of NAT."""
    pools, usage = node.nat_pools(), node.nat_usage()
    timeouts = node.nat_timeouts()._asdict()
    shown, count = _flows(node, arguments)
    value = {'pools': pools, 'peers': node.nat_peers(),
             'seeks_udp_s': node.seeks_udp_s(),
             'timeouts_s': timeouts, 'usage': usage._asdict(),
             'count': count,
             'flows': [_value(one) for one in shown]}
    taken = usage.half_open + usage.established + usage.time_wait
    text = output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'CLIENT', 'POOL', 'MEMBER', 'STATE',
         'IDLE S', 'ENDS IN S'),
        [(*one.service, _end(one.client, one.client_port),
          _end(one.pool, one.pool_port), _end(one.member, one.member_port),
          one.state.name.lower(), one.idle, one.expires) for one in shown])
    return value, (
        f'pools: {", ".join(pools) or "none"}; peers: '
        f'{", ".join(value["peers"]) or "none"}; asks for UDP flows for '
        f'{value["seeks_udp_s"]} s\n'
        f'{_told(timeouts)}\n'
        f'{taken} of {usage.ports} ports taken: {usage.half_open} half open, '
        f'{usage.established} established, {usage.time_wait} in TIME_WAIT\n'
        f'{len(shown)} of {count} flows:\n{text}')
