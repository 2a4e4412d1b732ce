# SPDX-License-Identifier: Apache-2.0
"""Latency of members' changes, from the queue's file to the last table."""

import ipaddress
import itertools
import time

from bench import handler
from bench.parts import packets
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.node import datapath

VIPS = (1, 10, 100, 1000)
PORTS = (80, 443)
MEMBERS = 10
SLOTS = 13313
SERVICES_MAX = 2048
UP, DOWN = queue_file.State.UP, queue_file.State.DOWN
NS_PER_MS = 1e6


def run(asked):
    """Measure changes through the handler, and in the library alone."""
    in_library = packets.run_program('tables')
    values = {}
    for result in in_library:
        match result:
            case {'slots': slots, 'members': members, 'weighted': weighted}:
                values.setdefault(f'{slots} slots', {}).setdefault(
                    f'{members} members', {})[
                        'weighted_us' if weighted else 'equal_us'] = (
                            1000 * result['build'])
            case {'members': members, **times}:
                values[f'{members} members'] = _ms(times)
            case _:
                values['resync'] = _ms(result)
    for members, figures in _through_handler().items():
        values[f'{members} members'] |= figures
    return values, in_library


def _ms(times):
    return {f'{name}_ms': value for name, value in times.items()}


def _through_handler():
    """Return figures by number of changed members."""
    values = {}
    # Rounds share no checks, so that the handler knows none of them.
    checks = itertools.count(1)
    with handler.node(SERVICES_MAX, SLOTS) as (node, folder, config):
        writer = handler.Writer(folder)
        with handler.Handler(config).running() as child:
            # The first round warms up the handler.
            for vips in (VIPS[0], *VIPS):
                (up, up_cpu), (down, down_cpu) = _round(
                    node, writer, child, vips, checks)
                values[vips * len(PORTS) * MEMBERS] = {
                    'up_ms': up, 'up_cpu_ms': up_cpu, 'down_ms': down,
                    'down_cpu_ms': down_cpu}
    return values


def _round(node, writer, child, vips, checks):
    """Return times of all members coming up, and of one down in each table."""
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
    # The handler has now seen the new services; its next scan is 1 s away.
    child.looked(time.monotonic_ns())
    up = _change(writer, child, dict.fromkeys(keys, UP))
    # Its scan once a second also waits for packets in the previous tables.
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
    """Return milliseconds elapsed, and those of the handler's CPU time."""
    start = writer.delta(states)
    end = child.applied(len(states))
    return (end - start) / NS_PER_MS, child.used_last / NS_PER_MS
