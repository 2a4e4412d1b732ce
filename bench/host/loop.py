# SPDX-License-Identifier: Apache-2.0
"""Runs packets in a loop, as a NIC's driver does.

With a system call for each packet, the call and Python evict the programs'
data from caches and translation buffers, and pending memory accesses of a
packet cannot overlap work on the next one. So
``datapath/bench/host_loop.bpf.c`` runs thousands of packets of random flows in
one call.
"""

import collections.abc
import contextlib
import pathlib
import random
import statistics
import struct

from bench.host import libbpf

LENGTH = 128  # bytes of a frame
PACKETS = 2000  # packets of a run
FRESH = 1 << 26  # flows; so many that hardly any is known or repeated
ROUNDS = 101
DECAPSULATED = {'known_in', 'new_16_rules'}
LEFT_ALONE, REDIRECTED = 0xffffffff, 7


class Programs:
    """A hypervisor's programs, using the maps pinned in a folder."""

    def __init__(self, folder: str):
        self._object = libbpf.Object('host')
        for path in pathlib.Path(folder, 'maps').iterdir():
            self._object.take_map(path)
        self._object.load()
        self.nic = self._object.program('oxp_host_nic')
        self.tap_in = self._object.program('oxp_host_tap_in')

    def close(self) -> None:
        self._object.close()


class _Loop:

    def __init__(self, frame: bytes, at: tuple[int, int], flows: int,
                 program: int | str, action: int):
        """:param at: offsets of the client's address and port."""
        if len(frame) != LENGTH:
            raise ValueError(f'a frame of {len(frame)} bytes, not {LENGTH}')
        self._frame, self._action = frame, action
        self._object = libbpf.Object('host_loop')
        self._object.set_constants(frame + struct.pack(
            '4I', *at, flows - 1, random.getrandbits(32)))
        self._object.load()
        self._object.set_element('target', self._object.program(program)
                                 if isinstance(program, str) else program)
        self._program = self._object.program('oxp_host_loop')

    def run(self, ifindex: int) -> int:
        action, duration = self._object.run(self._program, self._frame,
                                            ifindex, PACKETS)
        if action != self._action:
            raise RuntimeError(f'the program returned {action}, '
                               f'not {self._action}')
        return duration

    def close(self) -> None:
        self._object.close()


Cases = collections.abc.Mapping[str, tuple[bytes, tuple[int, int], int, int]]


def measured(cases: Cases, fresh: Cases, flows: int, ifindex: int
             ) -> dict[str, dict]:
    """Costs net of the harness: medians and the least of the runs.

    What one of the flows costs alone is measured in the same run, with others
    in an order that changes: a machine may be half as fast a minute later.

    :param cases: name → frame, where in it the client's address and port are,
        the program's descriptor, and what it returns.
    :param fresh: the same of which each packet is a flow's first.
    """
    with contextlib.ExitStack() as stack:
        def loop(count, frame, at, program, action=LEFT_ALONE):
            made = _Loop(frame, at, count, program, action)
            stack.callback(made.close)
            return made
        loops = {(name, count): loop(count, *case)
                 for name, case in cases.items() for count in (flows, 1)}
        loops |= {(name, FRESH): loop(FRESH, *case)
                  for name, case in fresh.items()}
        frame, at = next(iter(cases.values()))[:2]
        for name in ('nothing', 'bare'):
            loops[name, 1] = loop(1, frame, at, f'oxp_host_{name}')
        costs: dict[tuple[str, int], list[int]] = {name: [] for name in loops}
        for _ in range(ROUNDS):
            for name, made in random.sample(sorted(loops.items()), len(loops)):
                costs[name].append(made.run(ifindex))
    median = _net({name: statistics.median(values)
                   for name, values in costs.items()})
    least = _net({name: min(values) for name, values in costs.items()})
    results = {name: {
        'floor_ns': statistics.median(costs['nothing', 1]),
        'net_ns': median[name, count], 'least_ns': least[name, count],
        'packets': ROUNDS * PACKETS} for name, count in (
            *((name, flows) for name in cases),
            *((name, FRESH) for name in fresh))}
    for name in cases:
        results[name] |= {'alone_ns': median[name, 1],
                          'least_alone_ns': least[name, 1]}
    return results


def _net(costs: dict[tuple[str, int], float]) -> dict[tuple[str, int], float]:
    harness = costs['nothing', 1]
    # Removing outer headers costs about as much as adding them.
    put_on = (costs['bare', 1] - harness) / 2
    return {name: round(cost - harness - (
        put_on if name[0] in DECAPSULATED else 0), 1)
        for name, cost in costs.items()}
