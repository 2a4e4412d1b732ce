# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.proxy.launcher import attempts
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy.launcher import world

ID = world.identity_of(1)


class TestAttempts(base.TestCase):

    def delays(self, lived_s, count):
        tried = attempts.Attempts(5)
        now, result = 100.0, []
        for _ in range(count):
            tried.started(now)
            now += lived_s
            tried.died(now)
            result.append((round(tried.retry_at - now, 3), tried.failed))
            now = tried.retry_at
        return result

    def test_delays_grow_until_it_has_failed(self):
        self.assertEqual(
            [(0, False), (0.1, False), (0.2, False), (0.4, False),
             (0.8, False), (30, True), (30, True)], self.delays(1, 7))

    def test_who_lived_long_is_started_at_once(self):
        self.assertEqual([(0, False)] * 9, self.delays(10, 9))

    def test_something_else_has_all_its_attempts(self):
        tried = attempts.Attempts(1)
        for now in (1.0, 2.0):
            tried.failed_to_start(now)
        self.assertTrue(tried.failed)
        tried.reset()
        self.assertFalse(tried.failed)
        self.assertEqual(0, tried.retry_at)


class TestNode(base.TestCase):
    """A load balancer, step by step; test_any_order has all of them."""

    def setUp(self):
        super().setUp()
        self.node = world.Node()
        self.world = self.node.world
        self.world.bad.add('bad')
        self.world.deadly.add('deadly')

    def want(self, text, ports=(80,), steps=8):
        self.world.wanted[ID] = world.launch(7, text, ports)
        self.node.look()
        self.node.step(steps)

    def state(self):
        return self.world.states[ID]

    def master(self):
        master, = self.world.masters(ID)
        return master

    def test_change_of_configuration_keeps_the_master(self):
        self.want('a')
        first = self.master()
        self.want('b')
        self.assertIs(first, self.master())
        self.assertEqual('b', first.served)

    def test_change_of_sockets_takes_a_second_master(self):
        self.want('a')
        first = self.master()
        self.want('a', (80, 81))
        old, new = self.world.masters(ID)
        self.assertIs(first, old)
        self.assertEqual((True, False), (old.is_leaving, new.is_leaving))
        # One that does not end is killed when its time is over.
        self.world.now += 10
        self.node.step(2)
        self.assertIs(new, self.master())

    def test_refused_configuration_leaves_no_open_socket(self):
        self.want('bad')
        self.assertEqual(('refused', False, None), (
            self.state()['phase'], self.state()['listening'],
            self.state()['pid']))
        self.assertEqual(set(), self.node.machine.sockets(ID))

    def test_clients_cannot_connect_before_a_configuration_is_accepted(self):
        self.world.wanted[ID] = world.launch(7, 'a', (80,))
        self.node.look()
        self.node.step()
        self.assertEqual({('203.0.113.1', 80)},
                         self.node.machine.sockets(ID))
        self.assertFalse(self.node.machine.is_listening(ID))
        self.node.step(4)
        self.assertTrue(self.node.machine.is_listening(ID))

    def test_process_that_has_lost_its_socket_is_replaced(self):
        self.want('a')
        first = self.master()
        first.endpoints = []
        self.node.start()
        self.node.step(4)
        _, second = self.world.masters(ID)
        self.assertEqual((True, [('203.0.113.1', 80)]), (
            first.is_leaving, second.endpoints))

    def test_workers_without_their_master_are_killed(self):
        self.want('a')
        first = self.master()
        first.process = first.workers.pop()._replace(parent=world.INIT)
        self.node.step()
        self.assertNotIn(1, self.world.groups[ID])
        self.node.step(4)
        self.assertEqual('a', self.master().served)

    def test_failed_one_is_closed_and_tried_again(self):
        self.want('deadly')
        self.node.step(200)
        self.assertEqual(('failed', False), (
            self.state()['phase'], self.state()['listening']))
        self.world.deadly.clear()
        self.world.now += attempts.RETRY_S
        self.node.step(4)
        self.assertEqual(('running', True), (
            self.state()['phase'], self.state()['listening']))

    def test_what_served_is_restarted_while_its_successor_is_refused(self):
        self.want('a')
        self.want('bad')
        self.assertEqual('a', self.state()['configuration_hash'])
        self.world.groups[ID].clear()
        self.node.step(4)
        self.assertEqual(('refused', 'a', 1, True), tuple(
            self.state()[name] for name in (
                'phase', 'configuration_hash', 'restarts', 'listening')))

    def test_what_is_not_wanted_does_not_wait_for_its_connections(self):
        self.want('a')
        self.world.wanted[ID]['stop_after_s'] = 3600
        self.node.look()
        self.node.step(2)
        master = self.master()
        del self.world.wanted[ID]
        self.node.look()
        self.node.step(2)
        self.assertTrue(master.is_leaving)
        self.assertEqual('stopping', self.state()['phase'])
        self.world.now += attempts.REMOVED_STOP_S
        self.node.step(2)
        self.assertEqual({}, self.world.states)

    def test_error_names_the_configuration_that_it_is_about(self):
        self.want('a')
        self.assertEqual((None, 'a'), self.judged())
        self.want('bad')
        self.assertEqual('bad', self.judged()[1])
        self.assertIsNotNone(self.judged()[0])
        # The next one has not been checked when it is read.
        self.want('bad too', steps=1)
        self.assertEqual('bad', self.judged()[1])
        self.want('deadly', steps=200)
        self.assertEqual('deadly', self.judged()[1])

    def judged(self):
        return self.state()['error'], self.state()['judged_hash']

    def test_what_runs_is_left_alone_by_the_next_launcher(self):
        self.want('a')
        before = self.master()
        workers = list(before.workers)
        self.node.start()
        self.node.step(4)
        self.assertIs(before, self.master())
        self.assertEqual(workers, before.workers)

    def test_member_is_admitted_before_it_is_served_and_out_after_it(self):
        self.want('a')
        self.assertEqual({(7, '198.51.100.1', 80)}, self.world.admitted)
        del self.world.wanted[ID]
        self.node.look()
        self.node.step(2)
        self.assertEqual(set(), self.world.admitted)
