# SPDX-License-Identifier: Apache-2.0
"""Latency from a result in the queue to the tables that packets read.

The result handler runs in a separate process, see ``bench.handler``.
"""

import ipaddress
import statistics
import time

from bench import handler
from bench.hc import steady
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.node import datapath

SERVICES = 1000
MEMBERS = 20
SLOTS = 13313
# Capacity of the maps in services, of 16 members each.
ROOM = 1280
VIP = '192.0.2.1'
UP, DOWN = queue_file.State.UP, queue_file.State.DOWN


def _fill(node):
    for service in range(SERVICES):
        key = datapath.Key(VIP, 'TCP', 1 + service)
        members = []
        for member in range(MEMBERS):
            number = service * MEMBERS + member
            address = ipaddress.ip_address('10.0.0.0') + number + 1
            members.append(datapath.Member(str(address), check=number + 1))
        node.set_service(key, members, datapath.Settings(slots=SLOTS))


def run(asked):
    """Return the latency of single changes and of all checks at once."""
    with handler.node(ROOM, SLOTS) as (node, folder, config):
        _fill(node)
        writer = handler.Writer(folder)
        with handler.Handler(config).running() as child:
            values = _measure(writer, child, asked.settings['singles'],
                              asked.settings['bursts'])
            values['rss_mb'] = steady.status(child.pid, 'VmHWM') / 1024
        wrong = node.faults()
        if wrong:
            raise RuntimeError(wrong)
        values['table_mb'] = node.info().map_bytes / 2**20
    return values, values


def _measure(writer, child, singles, bursts):
    states = {key: UP if key % 2 else DOWN
              for key in range(1, SERVICES * MEMBERS + 1)}
    whole = []
    for number in range(bursts + 1):
        took = (-writer.delta(states) + child.applied(len(states))) / 1e6
        if number:
            whole.append(took)  # in the first one, members are unknown
        states = {key: UP if state == DOWN else DOWN
                  for key, state in states.items()}
        time.sleep(0.3)
    single = []
    for number in range(singles):
        key = 1 + number * 37 % (SERVICES * MEMBERS)
        change = {key: states[key]}
        states[key] = UP if states[key] == DOWN else DOWN
        single.append((-writer.delta(change) + child.applied(1)) / 1e6)
        time.sleep(0.03)
    single.sort()
    return {
        'p50_ms': statistics.median(single),
        'p99_ms': single[int(0.99 * len(single))],
        'all_20000_ms': statistics.median(whole),
        'all_20000_minimum_ms': min(whole),
        'services': SERVICES, 'results': len(states)}
