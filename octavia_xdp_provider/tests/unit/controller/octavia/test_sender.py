# SPDX-License-Identifier: Apache-2.0
"""Messages of many callers, over a real Unix socket."""

import threading
import time

import fixtures

from octavia_xdp_provider.controller.octavia import driver_agent
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.octavia import sender
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller.octavia import agent_server

OK = {'status_code': 200}


def statuses(key, **more):
    """Return a message about a load balancer and its listener."""
    return {'listeners': [{'id': f'{key}-listener', **more}],
            'loadbalancers': [{'id': key, **more}]}


def active(key):
    return statuses(key, provisioning_status='ACTIVE')


def online(key, operating='ONLINE'):
    return statuses(key, operating_status=operating)


def deleted(key):
    return {'loadbalancers': [{'id': key, 'provisioning_status': 'DELETED'}]}


class TestSender(base.TestCase):
    """``answer()`` answers each message, holding those of ``held``."""

    def setUp(self):
        super().setUp()
        self.arrived = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.addCleanup(self.go_on.release, 1000)
        self.held = set()
        self.bad = set()
        self.names_bad = True
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
                    'status_object': 'loadbalancers', **(
                        {'status_object_id': min(keys & self.bad)}
                        if self.names_bad else {})}
        return OK

    def sender(self, timeout=60, calls=4):
        conf = self.load(self.server.configuration())
        return sender.Sender(
            driver_agent.DriverAgent(conf).set_statuses, calls, timeout)

    def send(self, tested, *messages):
        """Send each message from its own thread, in order; ``results`` has the
        error or None for each message's first load balancer."""
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
            # To keep the order, wait until it is queued or has arrived.
            while thread.is_alive() and not (
                    message in self.server.of('status') or any(
                        item.message is message
                        for item in list(tested._waiting))):
                time.sleep(0.001)

    def send_while_first_is_held(self):
        """Send b, c and d from a thread each while the server holds a."""
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
        """Return each message's load balancers, in order of arrival."""
        return [sorted(record['id'] for record in message['loadbalancers'])
                for message in self.server.of('status')]

    def test_single_message_is_sent_unchanged(self):
        self.sender().send(active('a'))
        self.assertEqual([active('a')], self.server.of('status'))

    def test_concurrent_callers_share_a_message(self):
        self.held = {'a'}
        self.send_while_first_is_held()
        self.assertEqual([['a'], ['b', 'c', 'd']], self.keys())
        message = self.server.of('status')[1]
        self.assertEqual(3, len(message['listeners']))
        self.assertEqual({'a': None, 'b': None, 'c': None, 'd': None},
                         self.results)

    def assert_only_c_has_failed(self):
        self.assertEqual([['a'], ['b', 'c', 'd']], self.keys()[:2])
        self.assertIsNone(self.results['b'])
        self.assertIsNone(self.results['d'])
        self.assertIsInstance(self.results['c'], errors.Rejected)
        self.assertIn('bad record', str(self.results['c']))

    def test_bad_record_fails_for_its_caller_only(self):
        self.held, self.bad = {'a'}, {'c'}
        self.send_while_first_is_held()
        self.assert_only_c_has_failed()
        self.assertEqual([['b', 'd']], self.keys()[2:])

    def test_unnamed_bad_record_is_found(self):
        self.held, self.bad, self.names_bad = {'a'}, {'c'}, False
        self.send_while_first_is_held()
        self.assert_only_c_has_failed()
        self.assertEqual([['b'], ['c'], ['d']], sorted(self.keys()[2:]))

    def test_several_bad_records_fail_for_their_callers(self):
        self.held, self.bad = {'a'}, {'b', 'd'}
        self.send_while_first_is_held()
        self.assertEqual(['b', 'd'], sorted(
            key for key, error in self.results.items() if error))

    def test_lanes_do_not_share_a_message(self):
        self.held = {'a', 'b'}
        tested = self.sender()
        self.send(tested, active('a'), online('b'))
        self.send(tested, active('c'), online('d'), deleted('e'))
        self.go_on.release(2)
        self.wait()
        self.assertEqual([['a'], ['b'], ['c'], ['d'], ['e']],
                         sorted(self.keys()))

    def delete_many(self, number, calls, *held):
        """Queue deletions while the server holds an earlier one."""
        self.held = {'x', *held}
        tested = self.sender(calls=calls)
        self.send(tested, deleted('x'))
        self.arrived.acquire()
        self.send(tested, *[deleted(f'd{index:02}')
                            for index in range(number)])
        return tested

    def test_waiting_deletions_share_a_message(self):
        self.delete_many(sender.DELETIONS_MAX + 2, 3)
        self.go_on.release()
        self.wait()
        self.assertEqual([1, sender.DELETIONS_MAX, 2],
                         list(map(len, self.keys())))

    def test_hanging_deletions_leave_calls_for_others(self):
        tested = self.delete_many(3, 4, 'd00')
        self.useFixture(fixtures.MonkeyPatch(
            'octavia_xdp_provider.controller.octavia.sender.SLOW_S', 0.0))
        tested.send(active('a'))
        self.assertIn(['a'], self.keys())
        self.go_on.release(2)
        self.wait()

    def test_deletion_has_a_longer_limit(self):
        """It is slow anyway, and sending it again would make it slower."""
        tested = self.delete_many(2, 3, 'y')
        tested._timeout_s = 0.0
        self.assertRaises(errors.OctaviaUnavailable, tested.send,
                          online('y'))
        self.go_on.release(2)
        self.wait()
        self.assertEqual({'x': None, 'd00': None, 'd01': None},
                         self.results)

    def test_callers_do_not_wait_after_stop(self):
        tested = self.delete_many(2, 3)
        tested._timeout_s = 0.0
        tested.stop()
        self.wait()
        self.assertEqual(
            {'x': True, 'd00': False, 'd01': False},
            {key: error.maybe_done for key, error in self.results.items()})
        self.go_on.release()

    def test_number_of_records_in_a_message_is_limited(self):
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

    def test_slow_call_delays_no_other(self):
        """A locked row in Octavia's database affects only its own message."""
        self.held = {'slow'}
        tested = self.sender()
        self.send(tested, active('slow'))
        self.arrived.acquire()
        tested.send(active('other'))
        self.assertEqual([['slow'], ['other']], self.keys())

    def test_abandoned_message_keeps_the_order(self):
        """A newer status must wait for an older one that may still be set."""
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

    def test_messages_about_one_object_keep_their_order(self):
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

    def test_concurrent_calls_are_limited(self):
        self.held = {'a'}
        tested = self.sender(timeout=1, calls=1)
        self.send(tested, active('a'))
        error = self.assertRaises(errors.OctaviaUnavailable, tested.send,
                                  online('b'))
        self.assertFalse(error.maybe_done)
        self.assertEqual([['a']], self.keys())
        self.wait()

    def test_callers_fail_at_once_without_a_server(self):
        tested = sender.Sender(driver_agent.DriverAgent(self.load(
            '[controller]\nstatus_socket = /nonexistent/socket\n')
        ).set_statuses, 4, 60)
        error = self.assertRaises(errors.OctaviaUnavailable, tested.send,
                                  active('a'))
        self.assertFalse(error.maybe_done)

    def test_unexpected_error_fails_its_callers_only(self):
        def fail(message):
            raise ZeroDivisionError
        tested = sender.Sender(fail, 4, 60)
        for _ in range(2):
            error = self.assertRaises(errors.OctaviaUnavailable, tested.send,
                                      active('a'))
            self.assertIn('ZeroDivisionError', str(error))
