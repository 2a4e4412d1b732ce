# SPDX-License-Identifier: Apache-2.0
"""Outages, budgets and races of the scheduler."""

from unittest import mock

from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit.controller import base
from octavia_xdp_provider.tests.unit.controller.scheduler import simulated


class TestOutage(simulated.SchedulerTestCase):

    HOSTS = [f'n{number}' for number in range(4)]

    def setUp(self):
        super().setUp()
        self.report(*self.HOSTS)
        self.duty.step()
        self.create(6)
        self.run_passes(*self.HOSTS)
        self.assertEqual(dict.fromkeys(self.HOSTS, 3), self.counts())

    def test_outage_moves_nothing(self):
        before = self.on()
        for _ in range(20):
            self.now += 5
            self.duty.step()
            self.work()
        self.assertEqual({'dead'}, set(self.store.nodes.conditions().values()))
        for host in self.HOSTS:
            self.run_passes(host, passes=1, step_s=0.5)
            self.assertEqual(before, self.on())
        self.run_passes(*self.HOSTS)
        self.assertEqual(before, self.on())

    def test_restart_or_new_leader_moves_nothing(self):
        before = self.on()
        self.now += 3600
        self.start_controller()
        self.run_passes(self.HOSTS[3], passes=5)
        self.assertEqual(before, self.on())

    def test_conditions_stand_after_a_restart_until_the_first_report(self):
        for condition in 'live', 'dead':
            self.now += 3600
            self.start_controller()
            for _ in range(11):
                self.duty.step()
                self.now += 5
                self.assertEqual({condition},
                                 set(self.store.nodes.conditions().values()))
            for _ in range(11):
                self.duty.step()
                self.now += 5
            # After a while, silence means that all nodes have died.
            self.assertEqual({'dead'},
                             set(self.store.nodes.conditions().values()))

    def test_node_that_stays_away_after_an_outage_is_replaced(self):
        self.now += 3600
        self.run_passes(*self.HOSTS[1:], passes=16, step_s=5)
        self.assertEqual(dict.fromkeys(self.HOSTS[1:], 4), self.counts())

    def test_dead_node_is_replaced_and_may_come_back(self):
        self.run_passes(*self.HOSTS[:-1], passes=14, step_s=5)
        self.assertNotIn(self.HOSTS[-1], self.counts())
        self.run_passes(*self.HOSTS, passes=30)
        counts = self.counts().values()
        self.assertEqual(12, sum(counts))
        self.assertLessEqual(max(counts) - min(counts), 2, counts)

    def test_dead_nodes_are_not_notified(self):
        self.run_passes(*self.HOSTS[:-1], passes=5, step_s=5)
        self.notified.clear()
        self.run_passes(*self.HOSTS[:-1], passes=9, step_s=5)
        self.assertNotIn(self.HOSTS[-1], self.counts())
        self.assertEqual(set(self.HOSTS[:-1]),
                         self.notified | set(self.HOSTS[:-1]))
        self.assertTrue(self.notified)


class TestWorkIsInProportion(simulated.SchedulerTestCase):

    def test_only_load_balancers_on_changed_nodes_are_placed_again(self):
        self.report('a', 'b', 'c', 'd')
        self.duty.step()
        self.create(8)
        self.run_passes('a', 'b', 'c', 'd')
        self.placed.clear()
        self.run_passes('a', 'b', 'c', 'd', passes=8)
        self.assertEqual([], self.placed)
        on_d = self.on()['d']
        self.run_passes('a', 'b', 'c', passes=5, step_s=5)
        self.assertEqual(on_d, set(self.placed))

    def test_new_node_gets_load_balancers_with_too_few_nodes(self):
        self.report('a')
        self.duty.step()
        self.create(5)
        self.run_passes('a')
        self.placed.clear()
        self.run_passes('a', passes=8, step_s=5)
        self.assertEqual([], self.placed, 'no node could serve them')
        self.run_passes('a', 'b')
        self.assertEqual({'a': 5, 'b': 5}, self.counts())

    def test_refused_load_balancer_is_placed_once_there_is_room(self):
        self.seen('a', {'services': 9, 'services_max': 9})
        self.duty.step()
        self.create(2)
        self.work()
        self.assertEqual({}, self.counts())
        self.seen('a', {'services': 0, 'services_max': 9})
        self.now += 11
        self.duty.step()
        self.work()
        self.assertEqual({'a': 2}, self.counts())


class TestStaggeredReturn(simulated.SchedulerTestCase):

    OPTIONS = 'replicas = 2\nrebalance_moves_max = 0\nsettle_time = 90\n'

    def setUp(self):
        super().setUp()
        self.report('a', 'b', 'c', 'd')
        self.duty.step()
        self.create(16)
        self.run_passes('a', 'b', 'c', 'd')
        self.before = self.on()

    def added(self):
        """Return pairs (host, load balancer) that are new since setUp()."""
        return {(host, key) for host, keys in self.on().items()
                for key in keys - self.before[host]}

    def test_nodes_that_come_back_one_by_one_keep_their_placements(self):
        # The others are dead for long, and their load balancers move to d.
        self.run_passes('d', passes=40, step_s=5)
        alone = self.added()
        self.assertEqual({'d'}, {host for host, _ in alone})
        for hosts in ('ad', 'abd', 'abcd'):
            self.run_passes(*hosts, passes=4, step_s=5)
            self.assertEqual(set(), self.added() - alone)

    def test_several_dead_nodes_are_replaced_after_the_settle_time(self):
        self.run_passes('c', 'd', passes=8, step_s=5)
        served = {key for host in 'cd' for key in self.before[host]}
        moved = {key for _, key in self.added()}
        # Only load balancers without a node were given one.
        self.assertEqual(self.keys() - served, moved)
        self.run_passes('c', 'd', passes=24, step_s=5)
        self.assertEqual({'c': 16, 'd': 16}, {
            host: len(keys) for host, keys in self.on().items()
            if host in 'cd'})

    def test_single_dead_node_is_replaced_at_once(self):
        self.run_passes('a', 'b', 'c', passes=8, step_s=5)
        self.assertEqual(self.before['d'], {key for _, key in self.added()})

    def keys(self):
        return {key for keys in self.before.values() for key in keys}


class TestBudget(simulated.SchedulerTestCase):

    OPTIONS = ('removal_budget_percent = 10\nremoval_budget_min = 3\n'
               'removal_budget_period = 150\nrebalance_moves_max = 0\n'
               'replicas = 1\n')

    def setUp(self):
        super().setUp()
        self.report('a', 'b')
        self.duty.step()
        self.create(14)
        self.run_passes('a', 'b')
        self.assertEqual({'a': 7, 'b': 7}, self.counts())

    def test_budget_limits_removals_from_dead_node(self):
        self.run_passes('b', passes=14, step_s=5)
        # The other node has all of them; three have left the dead one.
        self.assertEqual({'a': 4, 'b': 14}, self.counts())

    def test_exhausted_budget_is_logged_once(self):
        with mock.patch.object(service.LOG, 'error') as log:
            self.run_passes('b', passes=22, step_s=5)
        self.assertEqual(1, log.call_count, log.mock_calls)
        self.assertIn('allow-removals', log.call_args[0][0])

    def test_budget_recovers_with_time(self):
        self.run_passes('b', passes=14, step_s=5)
        self.run_passes('b', passes=32, step_s=5)
        self.assertEqual({'a': 1, 'b': 14}, self.counts())

    def test_operator_can_allow_more_removals(self):
        self.run_passes('b', passes=14, step_s=5)
        self.store.placements.allow_removals(4, 150)
        self.run_passes('b', passes=2)
        self.assertEqual({'b': 14}, self.counts())

    def test_two_controllers_share_the_budget(self):
        """The removing transaction counts earlier removals itself."""
        self.assertTrue(self.store.placements.place('lb0', [], failed=3,
                                                    budget=(3, 500)))
        self.assertFalse(self.store.placements.place('lb0', [], failed=1,
                                                     budget=(3, 500)))


class TestRaces(simulated.SchedulerTestCase):

    def test_move_decided_on_stale_placements_is_dropped(self):
        self.report('a', 'b', 'c')
        self.duty.step()
        self.create(1)
        # Another scheduler writes between this one's read and write.
        real, calls = self.store.placements.place, []

        def place(*arguments, **options):
            if not calls:
                calls.append(real('lb0', ('a',),
                                  decided_on=frozenset()))
            return real(*arguments, **options)

        with mock.patch.object(self.store.placements, 'place', place):
            placed = self.scheduler.place(self.store.situations.get('lb0'))
        self.assertEqual((True, frozenset()),
                         (placed.conflict, placed.notify))
        self.assertEqual({'a'}, set(self.on()))

    def test_deleted_load_balancer_is_not_placed(self):
        self.create(1)
        self.store.load_balancers.delete('lb0')
        self.assertFalse(self.store.placements.place('lb0', ('a',),
                                                     decided_on=frozenset()))
        self.assertEqual([], self.store.placements.select())


class TestRemovalLog(base.StoreTestCase):

    def test_only_failures_within_the_span_are_counted(self):
        now = simulated.START
        with mock.patch('time.time', lambda: now):
            self.store.placements.place('lb', ('a',))
            self.store.placements.place('lb', (), ('a',), failed=2)
            self.store.placements.place('lb', (), ('a',))
            self.assertEqual(2, self.store.placements.removals_since(60))
            now += 61
            self.assertEqual(0, self.store.placements.removals_since(60))
            self.store.placements.allow_removals(5, 60)
            self.assertEqual(-5, self.store.placements.removals_since(60))
        with self.store.database.read() as session:
            self.assertEqual(1, session.query(models.Removal).count())

    def test_removals_of_other_times_are_forgotten(self):
        now = simulated.START
        with mock.patch('time.time', lambda: now):
            for _ in range(3):
                self.assertTrue(self.store.placements.place(
                    'lb', (), ('a',), failed=1, budget=(2, 60)))
                now += 61
            now -= 3600
            self.assertEqual(0, self.store.placements.removals_since(60))
            self.assertTrue(self.store.placements.place(
                'lb', (), ('a',), failed=2, budget=(2, 60)))
        with self.store.database.read() as session:
            self.assertEqual([2], [row.number for row in session.query(
                models.Removal)])


class TestPlugins(simulated.SchedulerTestCase):

    def test_missing_plugin_is_refused_by_name(self):
        for option in ('filters', 'weighers'):
            conf = self.load(f'[database]\nconnection = {self.url}\n'
                             f'[placement]\n{option} = live,no_such\n')
            error = self.assertRaises(
                service.PluginError, service.Scheduler, conf, self.store)
            self.assertIn(f'[placement] {option} names', str(error))
            self.assertIn('no_such', str(error))
