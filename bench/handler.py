# SPDX-License-Identifier: Apache-2.0
"""Runs the result handler as a separate process, and writes its queue.

Library, pinned maps and directory are real. The handler additionally reports
through a pipe when it is done.
"""

import contextlib
import multiprocessing
import os
import time

from bench.engine import alone
from bench.hc import space
from octavia_xdp_provider.config import options
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.result_handler import handler

BOOT = 1
PATIENCE = 60  # seconds


class Timed(handler.ResultHandler):
    """Reports when a batch is in the tables, with its number of results.

    Reports 0 results when it has scanned services and slots.
    """

    pipe = None

    def _apply(self, batch, whole):
        super()._apply(batch, whole)
        if batch.changed:
            self._report(len(batch.changed))

    def step(self, rescan=True):
        super().step(rescan)
        if rescan:
            self._report(0)

    def _report(self, results_in):
        self.pipe.send((time.monotonic_ns(), time.process_time_ns(),
                        results_in))


def _handle(config, pipe):
    handler = Timed(options.load(config_files=[config]))
    handler.pipe = pipe
    handler.run()


class Handler:
    """The process and its reports."""

    def __init__(self, config):
        self._pipe, other = multiprocessing.Pipe()
        self._process = multiprocessing.get_context('spawn').Process(
            target=_handle, args=(str(config), other))
        self.used = self._used_before = 0  # CPU time, ns

    @contextlib.contextmanager
    def running(self):
        self._process.start()
        try:
            yield self
        finally:
            self._process.terminate()
            self._process.join(5)
            self._process.kill()
            self._process.join()

    @property
    def pid(self):
        return self._process.pid

    def _reported(self):
        if not self._pipe.poll(PATIENCE):
            raise RuntimeError('the result handler does not answer')
        moment, used, results_in = self._pipe.recv()
        self._used_before, self.used = self.used, used
        return moment, results_in

    @property
    def used_last(self):
        """CPU time between its last two reports, ns."""
        return self.used - self._used_before

    def applied(self, count):
        """Return when ``count`` results are in the tables, ns."""
        while count > 0:
            moment, results_in = self._reported()
            count -= results_in
        return moment

    def looked(self, since):
        """Wait for a full scan that ended after ``since``, ns."""
        while True:
            moment, results_in = self._reported()
            if not results_in and moment >= since:
                return


@contextlib.contextmanager
def node(services_max, slots_max):
    """Yield (a node's maps, its folder, the handler's configuration)."""
    library = alone.CHECKOUT / 'datapath/build/liboctavia_xdp.so'
    with space.mounted('tmpfs') as folder, space.mounted('bpf') as bpffs:
        config = folder / 'conf'
        config.write_text(
            f'[agent]\nrun_directory = {folder}\n[datapath]\n'
            f'library = {library}\npin_directory = {bpffs}/node\n'
            f'services_max = {services_max}\nslots = {slots_max}\n')
        with datapath.Datapath(
                f'{bpffs}/node', str(folder / 'datapath.lock'), create=True,
                services_max=services_max, slots_max=slots_max,
                library=str(library)) as made:
            yield made, folder, config


class Writer:
    """The health checker's side of the queue."""

    def __init__(self, folder):
        self._queue = folder / 'queue'
        self._queue.mkdir()
        self._next = 1
        self._write('snapshot', queue_file.Kind.SNAPSHOT, 0, 0, [])

    def _write(self, name, kind, first, last, records):
        """Write a file and rename it; return the time before the rename."""
        temporary = self._queue / '.tmp-writer'
        temporary.write_bytes(
            queue_file.encode(kind, BOOT, first, last, records))
        moment = time.monotonic_ns()
        os.rename(temporary, self._queue / name)
        return moment

    def delta(self, states):
        """Write the states of checks {key: state} as one delta."""
        first = self._next
        records = [
            queue_file.Record(key, first + index, time.time_ns(), state, 0,
                                queue_file.FLAG_VERIFIED, 0)
            for index, (key, state) in enumerate(states.items())]
        self._next += len(records)
        return self._write(queue_file.delta_name(BOOT, first),
                           queue_file.Kind.DELTA, first, self._next - 1,
                           records)
