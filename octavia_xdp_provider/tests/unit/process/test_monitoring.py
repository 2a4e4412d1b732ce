# SPDX-License-Identifier: Apache-2.0
"""How a process shows that it lives, and that it does not."""

import http.client
import json
import os
import socket
import threading

import fixtures

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.process import health
from octavia_xdp_provider.process import loops
from octavia_xdp_provider.process import monitoring
from octavia_xdp_provider.process import systemd
from octavia_xdp_provider.process import watchdog
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import clocks


class TestLoops(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = clocks.Clock()
        self.loops = loops.Loops(10, self.clock)

    def test_loop_that_does_not_come_round_hangs(self):
        come_round = self.loops.watch('worker')
        self.loops.watch('leader')
        self.clock.now += 9
        come_round()
        self.clock.now += 9
        self.assertEqual({'leader': 18}, self.loops.hanging())
        self.assertEqual({'leader': 18, 'worker': 9}, self.loops.ages())

    def test_long_item_counts_as_hanging(self):
        busy_s = [0.0]
        self.loops.watch_age('item', lambda: busy_s[0])
        self.clock.now += 1000
        self.assertEqual({}, self.loops.hanging())
        busy_s[0] = 11.0
        self.assertEqual({'item': 11}, self.loops.hanging())


class SystemdTestCase(base.TestCase):
    """Where systemd listens."""

    def setUp(self):
        super().setUp()
        self.path = f'{self.useFixture(fixtures.TempDir()).path}/notify'
        self.receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.receiver.close)
        self.receiver.bind(self.path)

    def sent(self):
        """All that systemd was sent."""
        messages = []
        while True:
            try:
                messages.append(self.receiver.recv(
                    100, socket.MSG_DONTWAIT).decode())
            except BlockingIOError:
                return messages

    def systemd(self, **environment):
        self.environment = {'NOTIFY_SOCKET': self.path, 'PATH': '/bin',
                            **environment}
        return systemd.Systemd(self.environment)


class TestSystemd(SystemdTestCase):

    def test_systemd_is_notified_and_children_do_not_inherit_it(self):
        notifier = self.systemd(WATCHDOG_USEC='3000000',
                            WATCHDOG_PID=str(os.getpid()))
        self.assertEqual(({'PATH': '/bin'}, 3.0),
                         (self.environment, notifier.watchdog_s))
        for report in (notifier.ready, notifier.alive, notifier.stopping):
            report()
        self.assertEqual(['READY=1', 'WATCHDOG=1', 'STOPPING=1'],
                         self.sent())

    def test_watchdog_of_another_process_is_ignored(self):
        other = self.systemd(WATCHDOG_USEC='3000000', WATCHDOG_PID='1')
        self.assertIsNone(other.watchdog_s)
        other.ready()
        other.alive()
        self.assertEqual([], self.sent())

    def test_descriptors_are_stored_for_the_next_process(self):
        notifier = self.systemd()
        notifier.store('name', self.receiver.fileno())
        text, descriptors, _, _ = socket.recv_fds(self.receiver, 100, 2)
        self.assertEqual(b'FDSTORE=1\nFDPOLL=0\nFDNAME=name', text)
        descriptor, = descriptors
        self.addCleanup(os.close, descriptor)
        self.assertTrue(os.path.sameopenfile(descriptor,
                                             self.receiver.fileno()))
        notifier.forget('name')
        self.assertEqual(['FDSTOREREMOVE=1\nFDNAME=name'], self.sent())
        given = {'LISTEN_FDS': '2', 'LISTEN_FDNAMES': 'a:b'}
        self.assertEqual([('a', 3), ('b', 4)], self.systemd(
            **given, LISTEN_PID=str(os.getpid())).stored)
        self.assertEqual({'PATH': '/bin'}, self.environment)
        self.assertEqual([], self.systemd(**given, LISTEN_PID='1').stored)

    def test_nothing_is_sent_without_systemd(self):
        systemd.Systemd({}).ready()
        self.assertEqual([], self.sent())

    def test_missing_systemd_socket_is_ignored(self):
        notifier = self.systemd()
        self.receiver.close()
        os.unlink(self.path)
        notifier.ready()


class TestWatchdog(SystemdTestCase):

    def test_watchdog_is_fed_until_a_loop_hangs(self):
        log = self.useFixture(fixtures.FakeLogger())
        clock = clocks.Clock()
        watched = loops.Loops(10, clock)
        come_round = watched.watch('worker')
        feeder = watchdog.Watchdog(watched, self.systemd(
            WATCHDOG_USEC='3000000'))
        feeder.look()
        self.assertEqual(['WATCHDOG=1'], self.sent())
        clock.now += 11
        feeder.look()
        feeder.look()
        self.assertEqual([], self.sent())
        self.assertEqual(1, log.output.count('Hanging: worker for 11 s'))
        come_round()
        feeder.look()
        self.assertEqual(['WATCHDOG=1'], self.sent())


class TestRepeated(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = clocks.Clock()

    def test_failure_counts_when_it_has_lasted(self):
        outcomes = [OSError('refused'), None, OSError('refused')]

        def attempt():
            error = outcomes.pop(0)
            if error:
                raise error
        check = health.Repeated('broker', attempt, 5, 20, self.clock)
        check.look()
        self.assertIsNone(check.problem())
        self.clock.now += 21
        self.assertIn('OSError: refused', check.problem())
        check.look()
        self.assertIsNone(check.problem())
        self.clock.now += 21
        check.look()
        self.assertIn('for 21 s: OSError: refused', check.problem())

    def test_attempt_that_hangs_is_noticed(self):
        hangs, end = threading.Event(), threading.Event()

        def attempt():
            hangs.set()
            end.wait()
        self.addCleanup(end.set)
        check = health.Repeated('database', attempt, 5, 20, self.clock)
        check.start()
        self.addCleanup(check.stop)
        hangs.wait()
        self.clock.now += 21
        self.assertIn('for 21 s', check.problem())


class TestMonitoring(base.TestCase):

    def make(self, address='127.0.0.1:1'):
        conf = self.load(f'[controller]\nlisten = {address}\n')
        made = monitoring.Monitoring(conf, 'controller')
        # Whichever is free.
        made.listener._address = (made.listener._address[0], 0)
        self.addCleanup(made.stop)
        made.start()
        return made

    def get(self, made, path, method='GET', host='127.0.0.1'):
        connection = http.client.HTTPConnection(
            host, made.listener.port, timeout=10)
        self.addCleanup(connection.close)
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def test_healthy_process_reports_available(self):
        made = self.make()
        status, text = self.get(made, '/healthcheck')
        self.assertEqual((200, {'available': True,
                                'checks': {'threads': 'OK'}}),
                         (status, json.loads(text)))
        self.assertEqual((200, ''), self.get(made, '/healthcheck', 'HEAD'))

    def test_each_check_that_fails_is_named(self):
        made = self.make()
        made.health.add('broker', lambda: 'does not answer')
        made.health.add('odd', lambda: 1 / 0)
        self.useFixture(fixtures.FakeLogger())
        status, text = self.get(made, '/healthcheck')
        answer = json.loads(text)
        self.assertEqual((503, False, 'does not answer'), (
            status, answer['available'], answer['checks']['broker']))
        self.assertIn('ZeroDivisionError', answer['checks']['odd'])

    def test_metrics_have_the_loops(self):
        made = self.make('[::1]:1')
        made.loops.watch('worker')
        status, text = self.get(made, '/metrics', host='::1')
        self.assertEqual(200, status)
        self.assertIn('octavia_xdp_loop_age_seconds{loop="worker"}', text)

    def test_other_paths_and_methods_are_refused(self):
        made = self.make()
        self.assertEqual(404, self.get(made, '/')[0])
        self.assertEqual(405, self.get(made, '/healthcheck', 'POST')[0])
        self.assertEqual(405, self.get(made, '/metrics', 'POST')[0])

    def test_silent_connections_take_a_bounded_number_of_threads(self):
        made = self.make()
        before = threading.active_count()
        silent = [socket.create_connection(
            ('127.0.0.1', made.listener.port)) for _ in range(40)]
        for connection in silent:
            self.addCleanup(connection.close)
        # The last ones were turned away.
        self.assertEqual(b'', silent[-1].recv(1))
        self.assertLessEqual(threading.active_count() - before, 16)

    def test_address_that_is_taken_is_named_with_its_option(self):
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            taken.listen()
            port = taken.getsockname()[1]
            conf = self.load(f'[agent]\nlisten = 127.0.0.1:{port}\n')
            made = monitoring.Monitoring(conf, 'agent')
            error = self.assertRaises(option_values.ConfigurationError,
                                      made.start)
            self.assertIn('[agent] listen', str(error))

    def test_nothing_listens_unless_it_is_configured_to(self):
        for group in ('agent', 'controller'):
            made = monitoring.Monitoring(self.load(), group)
            self.assertIsNone(made.listener)
