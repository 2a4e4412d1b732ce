# SPDX-License-Identifier: Apache-2.0
"""The scheduler on a real database, and nodes that do as it says."""

import collections
from unittest import mock

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.scheduler import liveness
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base

START = 1_000_000.0


class SchedulerTestCase(base.StoreTestCase):

    OPTIONS = ''

    def setUp(self):
        super().setUp()
        self.now = START
        self.enterContext(mock.patch('time.time', lambda: self.now))
        self.start_controller()

    def start_controller(self):
        conf = self.load(f'[database]\nconnection = {self.url}\n'
                         f'[placement]\n{self.OPTIONS}\n')
        self.liveness = liveness.Liveness(
            conf.placement.node_timeout / 2, lambda: self.now)
        self.scheduler = service.Scheduler(conf, self.store, self.liveness)

    def database(self):
        self.url = super().database()
        return self.url

    def create(self, number):
        for index in range(number):
            document = unit.document()
            document['id'] = f'lb{index}'
            document['vip_address'] = f'203.0.{index // 250}.{index % 250}'
            document['pools'] = {}
            self.store.create(spec.complete(document))

    def report(self, *hosts, failing=()):
        """These nodes do what they shall and report it."""
        for host in hosts:
            self.liveness.heard()
            self.store.seen(host, {})
            answer = self.store.fetch(host, {})
            self.store.report(host, answer['as_of'], {
                key: {'generation': generation,
                      'error': 'no' if host in failing else None}
                for key, generation in answer['generations'].items()})

    def run_passes(self, *hosts, passes=4, step_s=1):
        """Reports of these nodes and a pass, every so many seconds."""
        for _ in range(passes):
            self.report(*hosts)
            self.scheduler.place()
            self.now += step_s

    def on(self):
        """Host → load balancers that it shall have."""
        found = collections.defaultdict(set)
        for row in self.store.placements():
            if row.removed_generation is None:
                found[row.host].add(row.load_balancer_id)
        return found


class TestOutage(SchedulerTestCase):

    HOSTS = [f'n{number}' for number in range(5)]

    def counts(self):
        on = self.on()
        return [len(on[host]) for host in self.HOSTS]

    def test_after_an_outage_nobody_gets_everything(self):
        self.create(10)
        self.run_passes(*self.HOSTS)
        before = self.on()
        self.assertEqual([4] * 5, self.counts())
        self.now += 3600
        for host in self.HOSTS:
            self.report(host)
            self.scheduler.place()
            self.assertEqual(before, self.on())
            self.now += 0.5
        self.run_passes(*self.HOSTS)
        self.assertEqual(before, self.on())

    def test_after_a_restart_nobody_gets_everything(self):
        self.create(10)
        self.run_passes(*self.HOSTS)
        before = self.on()
        self.now += 3600
        self.start_controller()
        self.run_passes(self.HOSTS[3], passes=5)
        self.assertEqual(before, self.on())

    def test_who_stays_away_after_an_outage_is_replaced_in_the_end(self):
        self.create(10)
        self.run_passes(*self.HOSTS)
        self.now += 3600
        self.run_passes(*self.HOSTS[1:], passes=16, step_s=5)
        on = self.on()
        self.assertEqual(set(), on[self.HOSTS[0]])
        self.assertEqual(20, sum(map(len, on.values())))

    def test_a_node_that_dies_alone_is_replaced_and_may_come_back(self):
        self.create(10)
        self.run_passes(*self.HOSTS)
        self.run_passes(*self.HOSTS[:-1], passes=10, step_s=5)
        self.assertEqual(0, self.counts()[-1])
        self.run_passes(*self.HOSTS, passes=12)
        counts = self.counts()
        self.assertEqual(20, sum(counts))
        self.assertLessEqual(max(counts) - min(counts), 2, counts)


class TestBudget(SchedulerTestCase):

    OPTIONS = ('removal_budget_percent = 10\nremoval_budget_least = 3\n'
               'removal_budget_span = 500\nrebalance_moves_max = 0\n'
               'replicas = 1\n')

    def setUp(self):
        super().setUp()
        self.create(20)
        self.run_passes('a', 'b')
        self.assertEqual({'a': 10, 'b': 10}, self.counts())

    def counts(self):
        return {host: len(found) for host, found in self.on().items()
                if found}

    def test_no_more_leave_a_dead_node_than_the_budget_allows(self):
        self.run_passes('b', passes=10, step_s=5)
        # Another node has taken all over; three were taken off the dead one.
        self.assertEqual({'a': 7, 'b': 20}, self.counts())

    def test_the_budget_comes_back_with_time(self):
        self.run_passes('b', passes=10, step_s=5)
        self.now += 500
        self.run_passes('b', passes=10, step_s=5)
        self.assertEqual({'a': 4, 'b': 20}, self.counts())

    def test_a_persons_word_lets_the_rest_go(self):
        self.run_passes('b', passes=10, step_s=5)
        self.store.allow_removals(7, 500)
        self.run_passes('b', passes=5)
        self.assertEqual({'b': 20}, self.counts())


class TestRaces(SchedulerTestCase):

    def test_a_move_that_was_decided_on_other_placements_is_not_made(self):
        self.create(1)
        self.report('a', 'b', 'c')
        # Another scheduler is faster, between the reading and the writing.
        real, calls = self.store.place, []

        def place(*arguments, **options):
            if not calls:
                calls.append(real('lb0', ('a',),
                                  decided_on=frozenset()))
            return real(*arguments, **options)

        with mock.patch.object(self.store, 'place', place):
            self.assertEqual(set(), self.scheduler.place())
        self.assertEqual([True], calls)
        self.assertEqual({'a'}, set(self.on()))

    def test_a_deleted_load_balancer_is_not_placed(self):
        self.create(1)
        self.store.delete('lb0')
        self.assertFalse(self.store.place('lb0', ('a',),
                                          decided_on=frozenset()))
        self.assertEqual([], self.store.placements())

    def test_one_load_balancer_is_placed_without_a_look_at_the_others(self):
        self.create(3)
        self.report('a', 'b')
        self.assertEqual({'a', 'b'}, self.scheduler.place(['lb1']))
        self.assertEqual({'lb1'}, set().union(*self.on().values()))
        self.assertEqual(set(), self.scheduler.place(['not there']))


class TestRemovalLog(base.StoreTestCase):

    def test_only_failures_within_the_span_are_counted(self):
        now = START
        with mock.patch('time.time', lambda: now):
            self.store.place('lb', ('a',))
            self.store.place('lb', (), ('a',), failed=2)
            self.store.place('lb', (), ('a',))
            self.assertEqual(2, self.store.removals_since(60))
            now += 61
            self.assertEqual(0, self.store.removals_since(60))
            self.store.allow_removals(5, 60)
            self.assertEqual(-5, self.store.removals_since(60))
        with self.store._read() as session:
            self.assertEqual(1, session.query(models.Removal).count())


class TestPlugins(SchedulerTestCase):

    def test_a_plugin_that_is_not_there_is_refused_by_name(self):
        for option in ('filters', 'weighers'):
            conf = self.load(f'[database]\nconnection = {self.url}\n'
                             f'[placement]\n{option} = live,no_such\n')
            error = self.assertRaises(
                service.PluginError, service.Scheduler, conf, self.store,
                self.liveness)
            self.assertIn(f'[placement] {option} names', str(error))
            self.assertIn('no_such', str(error))
