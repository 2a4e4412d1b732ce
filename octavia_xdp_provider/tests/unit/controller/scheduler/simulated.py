# SPDX-License-Identifier: Apache-2.0
"""The scheduler with a real database, a leader and simulated nodes."""

import collections
from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import duty
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base

START = 1_000_000.0


class SchedulerTestCase(base.StoreTestCase):
    """Does the work of the controller's workers, without Octavia."""

    OPTIONS = ''

    def setUp(self):
        super().setUp()
        self.now = START
        for clock in ('time.time', 'time.monotonic'):
            self.enterContext(mock.patch(clock, lambda: self.now))
        self.notified = set()
        self.placed = []  # ids of load balancers passed to place()
        self.start_controller()

    def start_controller(self):
        self.conf = self.load(f'[database]\nconnection = {self.url}\n'
                              f'[placement]\n{self.OPTIONS}\n')
        self.scheduler = service.Scheduler(self.conf, self.store)
        self.leadership = duty.Leadership(self.store, f'at {self.now}', 5)
        self.duty = duty.Duty(self.conf, self.store, self.leadership,
                              self.scheduler, self.notified.update,
                              lambda: None)

    def database(self):
        self.url = super().database()
        return self.url

    def create(self, number):
        for index in range(number):
            document = unit.document()
            document['id'] = f'lb{index}'
            document['vip_address'] = f'203.0.{index // 250}.{index % 250}'
            document['pools'] = {}
            self.store.load_balancers.create(spec.complete(document))

    def report(self, *hosts, failing=()):
        """Let nodes fetch their load balancers and report the results."""
        for host in hosts:
            self.seen(host, {})
            # Nothing is announced, so that nothing has to drain.
            self.report_wanted(host, 'no' if host in failing else None,
                               announced=False)

    def work(self):
        while items := self.store.work.claim('worker', 50, 60):
            for item in items:
                row = self.store.load_balancers.get(item.load_balancer_id)
                self.placed.append(row.id)
                placed = self.scheduler.place(
                    self.store.situations.get(row.id))
                self.notified |= placed.notify
                self.store.work.finish(item, 'worker', 30 if placed.deferred
                                       else None)

    def run_passes(self, *hosts, passes=4, step_s=1, failing=()):
        """Let nodes report, then leader and workers do what is due."""
        for _ in range(passes):
            self.report(*hosts, failing=failing)
            self.duty.step()
            self.work()
            self.now += step_s

    def on(self):
        """Return host → ids of load balancers placed there."""
        placed = collections.defaultdict(set)
        for row in self.store.placements.select():
            if row.removed_generation is None:
                placed[row.host].add(row.load_balancer_id)
        return placed

    def counts(self):
        return {host: len(keys) for host, keys in self.on().items() if keys}
