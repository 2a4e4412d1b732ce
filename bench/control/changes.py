# SPDX-License-Identifier: Apache-2.0
"""Single changes: the time until they are in tables, and until ACTIVE."""

import contextlib
import random
import threading
import time

from bench.control import figures
from bench.control import octavia
from lab.fabric import topology
from octavia_xdp_provider.node import datapath

WARM_UP = 5
POLL_S = 0.001


class _Watcher(threading.Thread):
    """Records when a member has a weight in the tables of all nodes."""

    def __init__(self, tables, key, address, weight):
        super().__init__(daemon=True)
        self._left = list(tables)
        self._key = key
        self._address = address
        self._weight = weight
        self._deadline = time.monotonic() + octavia.PATIENCE_S
        self.switched = None  # time.monotonic() of the last node

    def run(self):
        while self._left and time.monotonic() < self._deadline:
            self._left = [node for node in self._left if not self._has(node)]
            if self._left:
                time.sleep(POLL_S)
            else:
                self.switched = time.monotonic()

    def _has(self, tables):
        return any(member.address == self._address
                   and member.weight == self._weight
                   for member in tables.members(self._key))


def api_to_map(cluster, rounds):
    """Change weights; time from Octavia's answer to the last table."""
    samples, from_call = [], []
    chosen = random.Random(1)
    with contextlib.ExitStack() as stack:
        tables = [stack.enter_context(cluster.tables(node))
                  for node in topology.NODES]
        statuses = stack.enter_context(
            contextlib.closing(octavia.Statuses(cluster.lab)))
        for number in range(WARM_UP + rounds):
            balancer = chosen.choice(cluster.ids)
            accepted, switched = _change(cluster.api, tables, statuses,
                                         balancer, 2 + number % 200)
            if number >= WARM_UP:
                samples.append(max(0.0, switched - accepted[1]) * 1000)
                from_call.append((switched - accepted[0]) * 1000)
    return {'p50_ms': round(figures.percentile(samples, 50), 1),
            'p99_ms': round(figures.percentile(samples, 99), 1)}, {
        'changes': rounds, 'worst_ms': round(max(samples), 1),
        'call_p50_ms': round(figures.percentile(from_call, 50), 1)}


def _change(api, tables, statuses, balancer, weight):
    """Return ((begin, end of the API call), switched)."""
    path, address = api.member(balancer)
    key = datapath.Key(api.vip(balancer), 'TCP', octavia.PORT)
    watcher = _Watcher(tables, key, address, weight)
    watcher.start()
    began = time.monotonic()
    _answer, came = api.request('PUT', path, {'member': {'weight': weight}})
    watcher.join()
    if watcher.switched is None:
        raise octavia.Failed(f'{key} is not switched on every node')
    statuses.wait([balancer], 'ACTIVE')
    return (began, came), watcher.switched


def create_active(cluster, rounds):
    """Create load balancers one by one, empty and fully populated; time from
    the call to ACTIVE."""
    values, more = {}, {'load_balancers': 2 * rounds}
    with contextlib.closing(octavia.Statuses(cluster.lab)) as statuses:
        for prefix, populated in (('', False), ('populated_', True)):
            samples, answered = _creations(cluster, statuses, rounds,
                                           populated)
            values[f'{prefix}p50_s'] = round(figures.percentile(
                samples, 50), 2)
            more[f'{prefix}worst_s'] = round(max(samples), 2)
            more[f'{prefix}answered_p50_s'] = round(figures.percentile(
                answered, 50), 2)
    return values, more


def _creations(cluster, statuses, rounds, populated):
    """Return seconds from each call to ACTIVE, and from each answer."""
    samples, answered, made = [], [], []
    for number in range(2 + rounds):
        began = time.monotonic()
        key = cluster.create_one(populated)
        came = time.monotonic()
        active = statuses.wait([key], 'ACTIVE')[key]
        made.append(key)
        if number >= 2:
            samples.append(active - began)
            answered.append(max(0.0, active - came))
    for key in made:
        cluster.api.delete(key)
    statuses.wait(made, 'DELETED')
    return samples, answered
