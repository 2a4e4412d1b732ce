# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl show nat: flows of NAT, and the pools' usage."""

import argparse
from typing import Any

from octavia_xdp_provider.ctl import node as nodes
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node import types

# Most flows to show; a node may have millions.
SHOWN_MAX = 1000


def _flows(node: inspection.Inspection, arguments: argparse.Namespace
           ) -> tuple[list[types.NatFlow], int]:
    """Return at most SHOWN_MAX flows, and the number of all."""
    if not nodes.are_given(arguments):
        return node.nat_flows(SHOWN_MAX)
    shown: list[types.NatFlow] = []
    count = 0
    for service in node.services():
        if (types.ServiceFlag.NAT in service.settings.flags and
                nodes.matches(arguments, service.key)):
            flows, number = node.nat_flows(SHOWN_MAX, service=service.key)
            shown += flows[:SHOWN_MAX - len(shown)]
            count += number
    return shown, count


def _value(flow: types.NatFlow) -> dict[str, Any]:
    return output.key(flow.service) | {
        'client': flow.client, 'client_port': flow.client_port,
        'pool': flow.pool, 'pool_port': flow.pool_port,
        'member': flow.member, 'member_port': flow.member_port,
        'state': flow.state.name.lower(), 'idle_s': flow.idle,
        'expires_s': flow.expires}


def _end(address: str, port: int) -> str:
    return f'[{address}]:{port}' if ':' in address else f'{address}:{port}'


def _describe_timeouts(timeouts: dict[str, int]) -> str:
    return 'time-outs: ' + ', '.join(
        f'{name} {seconds} s' for name, seconds in timeouts.items()) + (
        '; established: "show settings"')


def nat(node: inspection.Inspection, arguments: argparse.Namespace
        ) -> tuple[Any, str]:
    """Pools, time-outs, how much of the pools is used, and flows of NAT."""
    pools, usage = node.nat_pools(), node.nat_usage()
    timeouts = node.nat_timeouts()._asdict()
    shown, count = _flows(node, arguments)
    value: dict[str, Any] = {
             'pools': pools, 'peers': node.nat_peers(),
             'seeks_udp_s': node.seeks_udp_s(),
             'timeouts_s': timeouts, 'usage': usage._asdict(),
             'count': count,
             'flows': [_value(flow) for flow in shown]}
    taken = usage.half_open + usage.established + usage.time_wait
    text = output.table(
        ('VIP', 'PROTOCOL', 'PORT', 'CLIENT', 'POOL', 'MEMBER', 'STATE',
         'IDLE S', 'ENDS IN S'),
        [(*flow.service, _end(flow.client, flow.client_port),
          _end(flow.pool, flow.pool_port), _end(flow.member, flow.member_port),
          flow.state.name.lower(), flow.idle, flow.expires) for flow in shown])
    return value, (
        f'pools: {", ".join(pools) or "none"}; peers: '
        f'{", ".join(value["peers"]) or "none"}; asks for UDP flows for '
        f'{value["seeks_udp_s"]} s\n'
        f'{_describe_timeouts(timeouts)}\n'
        f'{taken} of {usage.ports} ports taken: {usage.half_open} half open, '
        f'{usage.established} established, {usage.time_wait} in TIME_WAIT\n'
        f'{len(shown)} of {count} flows:\n{text}')
