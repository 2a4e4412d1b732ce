# SPDX-License-Identifier: Apache-2.0
"""A result handler over a fake datapath and a real queue directory."""

import os

from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.result_handler import handler
from octavia_xdp_provider.tests.unit import base

BOOT = 1000
UP = queue_file.State.UP
DOWN = queue_file.State.DOWN


def record(key, state, sequence=0, verified=True):
    return queue_file.Record(
        key, sequence, 0, state, 0,
        queue_file.FLAG_VERIFIED if verified else 0, 0)


class FakeDatapath:

    def __init__(self):
        self.applied = []
        self.state = {}
        self.known = set()
        self.services = {0: 1}
        self.failure = None
        self.looks = 0
        self.ticks = 0

    def tick(self):
        self.ticks += 1
        return 10 * self.ticks

    def outcomes(self):
        return {datapath.Outcome.FORWARDED: datapath.OutcomeCounters(0, 0),
                datapath.Outcome.DROP_RATE: datapath.OutcomeCounters(
                    7 * self.ticks, 700 * self.ticks)}

    def generations(self):
        self.looks += 1
        return dict(self.services)

    def known_checks(self):
        return self.known

    def apply_health(self, wanted):
        if self.failure is not None:
            raise self.failure
        self.applied.append(dict(wanted))
        self.state.update(wanted)
        return 1

    def close(self):
        pass


class HandlerTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.create_tempfiles(
            [('x', '')])[0].rpartition('/')[0]
        self.queue = f'{self.directory}/queue'
        self.datapath = FakeDatapath()
        self.restart()

    def restart(self):
        self.handler = handler.ResultHandler(self.load(
            f'[agent]\nrun_directory = {self.directory}\n'))
        self.handler._files.open_datapath = lambda: self.datapath

        self.now = 1000.0
        self.handler._results._clock = lambda: self.now

    def write(self, name, data):
        with open(f'{self.queue}/{name}', 'wb') as file:
            file.write(data)

    def delta(self, first, *records, boot=BOOT, name=None):
        records = [item._replace(sequence=first + index)
                   for index, item in enumerate(records)]
        name = name or queue_file.delta_name(boot, first)
        self.write(name, queue_file.encode(
            queue_file.Kind.DELTA, boot, first, first + len(records) - 1,
            records))
        return f'{self.queue}/{name}'

    def snapshot(self, last, *records, boot=BOOT):
        # The health checker replaces the file, and never rewrites it.
        temporary = f'{self.queue}/.tmp-snapshot'
        with open(temporary, 'wb') as file:
            file.write(queue_file.encode(
                queue_file.Kind.SNAPSHOT, boot, 0, last, records))
        os.rename(temporary, f'{self.queue}/snapshot')

    def step(self, rescan=True):
        """Take a step and return the member states in the datapath."""
        self.handler.step(rescan)
        return self.datapath.state

    def value(self, name, **labels):
        return self.handler.metrics.value(name, **labels)

    def pending(self):
        return [name for name in os.listdir(self.queue)
                if name.endswith('.delta')]
