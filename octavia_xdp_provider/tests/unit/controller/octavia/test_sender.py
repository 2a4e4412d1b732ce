# SPDX-License-Identifier: Apache-2.0
"""Messages of many callers, over a real Unix socket."""

import threading
import time

from octavia_xdp_provider.controller.octavia import driver_agent
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.octavia import sender
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller.octavia import agent_server

OK = {'status_code': 200}


def statuses(key, **more):
    """A message about one load balancer and a listener of it."""
    return {'listeners': [{'id': f'{key}-listener', **more}],
            'loadbalancers': [{'id': key, **more}]}


def active(key):
    return statuses(key, provisioning_status='ACTIVE')


def online(key, operating='ONLINE'):
    return statuses(key, operating_status=operating)


def deleted(key):
    return {'loadbalancers': [{'id': key, 'provisioning_status': 'DELETED'}]}


class TestSender(base.TestCase):
    """``answer`` decides about each message, when it has arrived."""

    def setUp(self):
        super().setUp()
        self.arrived = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.addCleanup(self.go_on.release, 1000)
        self.held = set()
        self.bad = set()
        self.results = {}
        self.threads = []
        self.server = self.useFixture(
            agent_server.DriverAgent(self.answer))

    def answer(self, kind, message, sock):
        self.arrived.release()
        keys = {record['id'] for record in message['loadbalancers']}
        if keys & self.held:
            self.go_on.acquire()
        if keys & self.bad:
            return {'status_code': 500, 'fault_string': 'bad record',
                    'status_object': 'loadbalancers'}
        return OK

    def sender(self, timeout=60, calls=4):
        conf = self.load(self.server.configuration())
        return sender.Sender(
            driver_agent.DriverAgent(conf).set_statuses, calls, timeout)

    def send(self, tested, *messages):
        """Send from a thread for each; results come under the first id."""
        def run(message):
            key = message['loadbalancers'][0]['id']
            try:
                tested.send(message)
                self.results[key] = None
            except errors.OctaviaUnavailable as error:
                self.results[key] = error
        for message in messages:
            thread = threading.Thread(target=run, args=(message,))
            thread.start()
            self.threads.append(thread)
            # In this order: each waits or has arrived before the next.
            while thread.is_alive() and not (
                    message in self.server.of('status') or any(
                        item.message is message
                        for item in list(tested._waiting))):
                time.sleep(0.001)

    def send_while_one_is_held(self):
        """b, c and d, from a thread each, while the server holds a."""
        tested = self.sender()
        self.send(tested, active('a'))
        self.arrived.acquire()
        self.send(tested, active('b'), active('c'), active('d'))
        self.go_on.release()
        self.wait()

    def wait(self):
        for thread in self.threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())

    def keys(self):
        """Load balancers by message, as they came."""
        return [sorted(record['id'] for record in message['loadbalancers'])
                for message in self.server.of('status')]

    def test_a_lone_message_goes_as_it_is(self):
        self.sender().send(active('a'))
        self.assertEqual([active('a')], self.server.of('status'))

    def test_callers_at_the_same_time_share_a_message(self):
        self.held = {'a'}
        self.send_while_one_is_held()
        self.assertEqual([['a'], ['b', 'c', 'd']], self.keys())
        message = self.server.of('status')[1]
        self.assertEqual(3, len(message['listeners']))
        self.assertEqual({'a': None, 'b': None, 'c': None, 'd': None},
                         self.results)

    def test_a_bad_record_fails_for_its_caller_only(self):
        self.held, self.bad = {'a'}, {'c'}
        self.send_while_one_is_held()
        self.assertEqual([['a'], ['b', 'c', 'd']], self.keys()[:2])
        self.assertEqual([['b'], ['c'], ['d']], sorted(self.keys()[2:]))
        self.assertIsNone(self.results['b'])
        self.assertIsNone(self.results['d'])
        self.assertIsInstance(self.results['c'], errors.Rejected)
        self.assertIn('bad record', str(self.results['c']))

    def test_kinds_of_messages_do_not_share_one(self):
        self.held = {'a', 'b'}
        tested = self.sender()
        self.send(tested, active('a'), online('b'))
        self.send(tested, active('c'), online('d'), deleted('e'))
        self.go_on.release(2)
        self.wait()
        self.assertEqual([['a'], ['b'], ['c'], ['d'], ['e']],
                         sorted(self.keys()))

    def test_deletions_share_small_messages_side_by_side(self):
        self.held = {'x'}
        tested = self.sender(calls=2)
        self.send(tested, deleted('x'))
        self.arrived.acquire()
        self.send(tested, *[deleted(f'd{number:02}') for number in range(12)])
        self.go_on.release()
        self.wait()
        self.assertEqual(13, sum(map(len, self.keys())))
        self.assertLessEqual(max(map(len, self.keys())),
                             sender.DELETIONS_MAX)

    def test_a_message_has_an_end(self):
        self.held = {'a'}
        tested = self.sender()
        self.send(tested, active('a'))
        self.arrived.acquire()
        many = [{'members': [{'id': f'{key}{number}'}
                             for number in range(sender.RECORDS_MAX // 2)],
                 **active(key)} for key in ('b', 'c', 'd')]
        self.send(tested, *many)
        self.go_on.release()
        self.wait()
        self.assertEqual([['a'], ['b'], ['c'], ['d']], self.keys())

    def test_what_is_slow_holds_up_no_other(self):
        """A locked row in Octavia's database is no matter of others."""
        self.held = {'slow'}
        tested = self.sender()
        self.send(tested, active('slow'))
        self.arrived.acquire()
        tested.send(active('other'))
        self.assertEqual([['slow'], ['other']], self.keys())

    def test_a_caller_that_gives_up_leaves_order_as_it_was(self):
        """No newer status may come before one that may still be set."""
        self.held = {'a'}
        tested = self.sender(timeout=1)
        error = self.assertRaises(errors.OctaviaUnavailable, tested.send,
                                  online('a', 'ERROR'))
        self.assertTrue(error.maybe_done)
        error = self.assertRaises(errors.OctaviaUnavailable, tested.send,
                                  online('a', 'ONLINE'))
        self.assertFalse(error.maybe_done, 'it was not sent')
        self.assertEqual([online('a', 'ERROR')], self.server.of('status'))
        self.held = set()
        self.go_on.release()
        while tested._objects:
            time.sleep(0.001)
        tested.send(online('a', 'ONLINE'))
        self.assertEqual([online('a', 'ERROR'), online('a', 'ONLINE')],
                         self.server.of('status'))

    def test_messages_about_one_object_go_in_order(self):
        self.held = {'a'}
        tested = self.sender()
        self.send(tested, online('a', 'ERROR'))
        self.arrived.acquire()
        self.send(tested, online('a', 'DEGRADED'))
        self.send(tested, active('a'))
        self.send(tested, online('b'))
        self.held = set()
        self.go_on.release()
        self.wait()
        self.assertEqual(
            [{'id': 'a', 'operating_status': 'ERROR'},
             {'id': 'a', 'operating_status': 'DEGRADED'},
             {'id': 'a', 'provisioning_status': 'ACTIVE'}],
            [record for message in self.server.of('status')
             for record in message['loadbalancers'] if record['id'] == 'a'])

    def test_calls_at_the_same_time_are_limited(self):
        self.held = {'a', 'b'}
        tested = self.sender(timeout=1, calls=2)
        self.send(tested, active('a'), online('b'))
        error = self.assertRaises(errors.OctaviaUnavailable, tested.send,
                                  deleted('c'))
        self.assertFalse(error.maybe_done)
        self.assertEqual(2, len(self.keys()))
        self.wait()

    def test_without_a_server_all_callers_fail_at_once(self):
        tested = sender.Sender(driver_agent.DriverAgent(self.load(
            '[controller]\nstatus_socket = /nonexistent/socket\n')
        ).set_statuses, 4, 60)
        error = self.assertRaises(errors.OctaviaUnavailable, tested.send,
                                  active('a'))
        self.assertFalse(error.maybe_done)

    def test_what_nobody_expects_harms_only_its_callers(self):
        def fail(message):
            raise ZeroDivisionError
        tested = sender.Sender(fail, 4, 60)
        for _ in range(2):
            error = self.assertRaises(errors.OctaviaUnavailable, tested.send,
                                      active('a'))
            self.assertIn('ZeroDivisionError', str(error))
