# SPDX-License-Identifier: Apache-2.0
"""Changes of members, from the queue's file to the last switched table."""

import ipaddress
import itertools
import time

from bench import handler
from bench.parts import packets
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.result_handler import queue_file

VIPS = (1, 10, 100, 1000)
PORTS = (80, 443)
MEMBERS = 10
SLOTS = 13313
SERVICES_MAX = 2048
UP, DOWN = queue_file.State.UP, queue_file.State.DOWN
NS_PER_MS = 1e6


def run(asked):
    """Through the handler, and beside it in the library alone."""
    in_library = packets.run_program('tables', '1')
    found = {f'{one["members"]} members': {
        'baseline_up_ms': one['baseline_up'][0],
        **{f'library_{name}_ms': one[name][0]
           for name in ('up', 'up_cpu', 'down', 'down_cpu')}}
        for one in in_library['updates']}
    for members, figures in _through_handler().items():
        found[f'{members} members'] |= figures
    for one in in_library['one_table']:
        weights = 'weighted' if one['weighted'] else 'equal'
        found.setdefault(f'{one["slots"]} slots', {}).setdefault(
            f'{one["members"]} members', {})[f'{weights}_us'] = (
                1000 * one['build'][0])
    found['resync'] = {f'{name}_ms': in_library['resync'][name][0]
                       for name in ('empty', 'unchanged', 'one_less')}
    return found, in_library


def _through_handler():
    """{member changes: figures}."""
    found = {}
    # No two rounds have a check in common: the handler knows none of them.
    checks = itertools.count(1)
    with handler.node(SERVICES_MAX, SLOTS) as (node, folder, config):
        writer = handler.Writer(folder)
        with handler.Handler(config).running() as child:
            # The first one warms the handler up.
            for vips in (VIPS[0], *VIPS):
                (up, up_cpu), (down, down_cpu) = _round(
                    node, writer, child, vips, checks)
                found[vips * len(PORTS) * MEMBERS] = {
                    'up_ms': up, 'up_cpu_ms': up_cpu, 'down_ms': down,
                    'down_cpu_ms': down_cpu}
    return found


def _round(node, writer, child, vips, checks):
    """Times of all up from nothing, and of one down in each table."""
    services = {}
    for vip, port in itertools.product(range(vips), PORTS):
        key = datapath.Key(
            str(ipaddress.ip_address('192.0.0.1') + vip), 'TCP', port)
        first = ipaddress.ip_address('10.0.0.1') + 64 * vip
        services[key] = (datapath.Settings(slots=SLOTS), [
            datapath.Member(str(first + member), check=next(checks))
            for member in range(MEMBERS)])
    _, refused = node.set_services(services)
    if refused:
        raise RuntimeError(refused)
    keys = [member.check for _, members in services.values()
            for member in members]
    # The handler has seen the new services; its next look is 1 s away.
    child.looked(time.monotonic_ns())
    up = _change(writer, child, dict.fromkeys(keys, UP))
    # Its look once a second also waits for packets of the tables before.
    child.looked(time.monotonic_ns() + 1_000_000_000)
    down = _change(writer, child, dict.fromkeys(keys[::MEMBERS], DOWN))
    for service in node.services():
        if service.enabled != MEMBERS - 1:
            raise RuntimeError(f'{service} does not have what was set')
    wrong = node.faults()
    if wrong:
        raise RuntimeError(wrong)
    node.delete_services(services)
    return up, down


def _change(writer, child, states):
    """Milliseconds, and those of the handler's CPU time."""
    start = writer.delta(states)
    end = child.applied(len(states))
    return (end - start) / NS_PER_MS, child.used_last / NS_PER_MS
