# SPDX-License-Identifier: Apache-2.0
"""From a result in the queue to the tables that packets read.

The result handler runs in a process of its own, on the real library, real
pinned maps and a real directory; only the moment at which it is done is told
through a pipe.
"""

import ipaddress
import multiprocessing
import os
import statistics
import sys
import time

from bench.hc import space
from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.agent import results
from octavia_xdp_provider.common import options
from octavia_xdp_provider.common import result_queue

SERVICES = 1000
MEMBERS = 20
SLOTS = 13313
# Services that the maps have room for; 16 members each.
ROOM = 1280
BOOT = 1
VIP = '192.0.2.1'
PATIENCE = 60
UP, DOWN = result_queue.State.UP, result_queue.State.DOWN


class Timed(results.ResultHandler):
    """Says when a batch is in the tables, and how many results it had."""

    pipe = None

    def _apply(self, batch, whole):
        super()._apply(batch, whole)
        if batch.changed:
            self.pipe.send((time.monotonic_ns(), len(batch.changed)))


def _handle(config, pipe):
    handler = Timed(options.load(config_files=[config]))
    handler.pipe = pipe
    handler.run()


class Writer:
    """The health checker's side of the queue."""

    def __init__(self, folder):
        self._queue = folder / 'queue'
        self._queue.mkdir()
        self._next = 1
        self.write('snapshot', result_queue.Kind.SNAPSHOT, 0, 0, [])

    def write(self, name, kind, first, last, records):
        """Write under a temporary name; when it was renamed."""
        temporary = self._queue / '.tmp-writer'
        temporary.write_bytes(
            result_queue.encode(kind, BOOT, first, last, records))
        moment = time.monotonic_ns()
        os.rename(temporary, self._queue / name)
        return moment

    def delta(self, states):
        """Write the states of checks {key: state} as one delta."""
        first = self._next
        records = [
            result_queue.Record(key, first + index, time.time_ns(), state, 0,
                                result_queue.FLAG_VERIFIED, 0)
            for index, (key, state) in enumerate(states.items())]
        self._next += len(records)
        return self.write(result_queue.delta_name(BOOT, first),
                          result_queue.Kind.DELTA, first, self._next - 1,
                          records)


def _wait(pipe, count):
    """Milliseconds-to-be: when so many results are in the tables."""
    while count > 0:
        if not pipe.poll(PATIENCE):
            raise RuntimeError('the result handler does not answer')
        moment, results_in = pipe.recv()
        count -= results_in
    return moment


def _fill(node):
    for service in range(SERVICES):
        key = datapath.Key(VIP, 'TCP', 1 + service)
        members = []
        for member in range(MEMBERS):
            number = service * MEMBERS + member
            address = ipaddress.ip_address('10.0.0.0') + number + 1
            members.append(datapath.Member(str(address), check=number + 1))
        node.set_service(key, members, datapath.Settings(slots=SLOTS))


def run(library, singles, bursts):
    """Latency of single changes, and of every check at once."""
    with space.mounted('tmpfs') as folder, space.mounted('bpf') as bpffs:
        config = folder / 'conf'
        config.write_text(
            f'[agent]\nrun_directory = {folder}\n[datapath]\n'
            f'library = {library}\npin_directory = {bpffs}/node\n'
            f'services_max = {ROOM}\nslots = {SLOTS}\n')
        node = datapath.Datapath(
            f'{bpffs}/node', str(folder / 'datapath.lock'), create=True,
            services_max=ROOM, slots_max=SLOTS, library=library)
        with node:
            _fill(node)
            writer = Writer(folder)
            pipe, other = multiprocessing.Pipe()
            child = multiprocessing.get_context('spawn').Process(
                target=_handle, args=(str(config), other))
            child.start()
            try:
                found = _measure(writer, pipe, singles, bursts)
                found['rss_mb'] = _memory(child.pid)
            finally:
                child.terminate()
                child.join(5)
                child.kill()
            wrong = node.verify()
            if wrong:
                raise RuntimeError(wrong)
            found['table_mb'] = node.info().map_bytes / 2**20
    print(f'  result to table: {found}', file=sys.stderr)
    return found


def _measure(writer, pipe, singles, bursts):
    states = {key: UP if key % 2 else DOWN
              for key in range(1, SERVICES * MEMBERS + 1)}
    whole = []
    for number in range(bursts + 1):
        took = (-writer.delta(states) + _wait(pipe, len(states))) / 1e6
        if number:
            whole.append(took)  # the first finds the members unknown
        states = {key: UP if state == DOWN else DOWN
                  for key, state in states.items()}
        time.sleep(0.3)
    single = []
    for number in range(singles):
        key = 1 + number * 37 % (SERVICES * MEMBERS)
        change = {key: states[key]}
        states[key] = UP if states[key] == DOWN else DOWN
        single.append((-writer.delta(change) + _wait(pipe, 1)) / 1e6)
        time.sleep(0.03)
    single.sort()
    return {
        'p50_ms': statistics.median(single),
        'p99_ms': single[int(0.99 * len(single))],
        'all_20000_ms': statistics.median(whole),
        'all_20000_minimum_ms': min(whole),
        'services': SERVICES, 'results': len(states)}


def _memory(pid):
    with open(f'/proc/{pid}/status') as file:
        for line in file:
            if line.startswith('VmHWM:'):
                return int(line.split()[1]) / 1024
    return 0.0
