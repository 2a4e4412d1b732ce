# SPDX-License-Identifier: Apache-2.0
"""Calls of octavia-driver-agent, over real Unix sockets."""

import os
import socket
import threading

from octavia_lib.api.drivers import driver_lib

from octavia_xdp_provider.controller.octavia import driver_agent
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller.octavia import agent_server

OK = {'status_code': 200}
STATUSES = {'loadbalancers': [{'id': 'lb', 'operating_status': 'ONLINE'}]}


class DriverAgentTestCase(base.TestCase):

    def serve(self, handle, timeout=5):
        self.server = self.useFixture(agent_server.DriverAgent(handle))
        self.conf = self.load(self.server.configuration() +
                              f'driver_agent_timeout = {timeout}\n')
        return driver_agent.DriverAgent(self.conf)

    def unavailable(self, call, *arguments):
        return self.assertRaises(errors.OctaviaUnavailable, call, *arguments)


class TestAnswers(DriverAgentTestCase):

    def test_messages_are_those_of_octavia_lib(self):
        """Notices a change of octavia-lib's protocol."""
        agent = self.serve(lambda kind, message, sock: (
            {} if kind == 'get' else OK))
        agent.set_statuses(STATUSES)
        agent.set_statistics([{'id': 'listener'}])
        self.assertIsNone(agent.load_balancer('lb'))
        ours, self.server.messages = self.server.messages, []
        library = driver_lib.DriverLibrary(
            self.server.paths['status'], self.server.paths['stats'],
            self.server.paths['get'])
        library.update_loadbalancer_status(STATUSES)
        library.update_listener_statistics(
            {'listeners': [{'id': 'listener'}]})
        self.assertIsNone(library.get_loadbalancer('lb'))
        self.assertEqual(self.server.messages, ours)

    def test_load_balancer_is_octavia_libs_object(self):
        agent = self.serve(lambda *_: {
            'loadbalancer_id': 'lb', 'vip_address': '203.0.113.10'})
        self.assertEqual('203.0.113.10',
                         agent.load_balancer('lb').vip_address)

    def test_answer_in_pieces_is_joined(self):
        def handle(kind, message, sock):
            for byte in b'20\n{"status_code": 200}':
                sock.sendall(bytes([byte]))
        self.serve(handle).set_statuses(STATUSES)

    def test_big_message_arrives_whole(self):
        records = [{'id': f'{number:036}', 'operating_status': 'ONLINE'}
                   for number in range(5000)]
        self.serve(lambda *_: OK).set_statuses({'members': records})
        self.assertEqual([{'members': records}], self.server.of('status'))

    def test_refused_record_is_rejected(self):
        agent = self.serve(lambda *_: {
            'status_code': 500, 'fault_string': 'no such status',
            'status_object': 'members', 'status_object_id': 'm'})
        error = self.assertRaises(errors.Rejected, agent.set_statuses,
                                  STATUSES)
        self.assertIn('no such status', str(error))
        self.assertFalse(error.maybe_done)
        self.assertRaises(errors.Rejected, agent.set_statistics, [])


class TestPreloaded(DriverAgentTestCase):
    """A preloaded listener in addition to octavia-driver-agent's own."""

    def setUp(self):
        super().setUp()
        self.preloaded = self.useFixture(agent_server.DriverAgent(
            lambda kind, *_: {} if kind == 'get' else OK))
        self.path = self.preloaded.paths['status']

    def agent(self, **paths):
        self.server = self.useFixture(agent_server.DriverAgent(
            lambda kind, *_: {} if kind == 'get' else OK))
        conf = self.load(self.server.configuration() + ''.join(
            f'preloaded_{kind}_socket = {path}\n'
            for kind, path in paths.items()))
        return driver_agent.DriverAgent(conf)

    @staticmethod
    def send_each(agent):
        agent.set_statuses(STATUSES)
        agent.set_statistics([{'id': 'listener'}])
        agent.load_balancer('lb')

    def test_each_kind_of_message_uses_its_preloaded_listener(self):
        self.send_each(self.agent(**self.preloaded.paths))
        self.assertEqual(['status', 'stats', 'get'],
                         [kind for kind, _ in self.preloaded.messages])
        self.assertEqual([], self.server.messages)

    def test_kinds_without_listener_go_to_octavia_driver_agent(self):
        self.send_each(self.agent(status=self.path))
        self.assertEqual([('status', STATUSES)], self.preloaded.messages)
        self.assertEqual(['stats', 'get'],
                         [kind for kind, _ in self.server.messages])

    def test_unconfigured_listeners_are_not_used(self):
        agent = self.agent()
        agent.set_statuses(STATUSES)
        self.assertEqual([STATUSES], self.server.of('status'))

    def test_absent_listener_is_replaced_by_octavia_driver_agent(self):
        path = self.path + '-later'
        agent = self.agent(status=path)
        agent.set_statuses(STATUSES)
        self.assertEqual([STATUSES], self.server.of('status'))
        os.rename(self.path, path)
        agent.set_statuses(STATUSES)
        self.assertEqual([STATUSES], self.server.of('status'))
        self.assertEqual([STATUSES], self.preloaded.of('status'))

    def test_sent_message_is_not_repeated_elsewhere(self):
        self.preloaded.handle = lambda *_: None
        error = self.unavailable(self.agent(status=self.path).set_statuses,
                                 STATUSES)
        self.assertTrue(error.maybe_done)
        self.assertEqual([], self.server.of('status'))


class TestNoAnswer(DriverAgentTestCase):

    def setUp(self):
        super().setUp()
        self.release = threading.Event()
        self.addCleanup(self.release.set)

    def test_missing_socket_is_unavailable(self):
        agent = self.serve(None)
        agent.get_socket = agent.status_socket = '/nonexistent/socket'
        for call in (agent.load_balancer, agent.set_statuses):
            error = self.unavailable(call, 'lb')
            self.assertIn('/nonexistent/socket', str(error))
            self.assertFalse(error.maybe_done)

    def test_hanging_server_is_unavailable(self):
        agent = self.serve(lambda *_: self.release.wait() and None, timeout=1)
        error = self.unavailable(agent.load_balancer, 'lb')
        self.assertIn('no answer', str(error))

    def test_server_that_does_not_accept_is_unavailable(self):
        agent = self.serve(None, timeout=1)
        path = self.server.paths['get'] + '-2'
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen(0)
            agent.get_socket = path
            others = []
            self.addCleanup(lambda: [other.close() for other in others])
            while True:
                other = socket.socket(socket.AF_UNIX)
                other.setblocking(False)
                others.append(other)
                try:
                    other.connect(path)
                except BlockingIOError:
                    break
            self.assertIn('no connection in time', str(
                self.unavailable(agent.load_balancer, 'lb')))

    def test_full_queue_is_waited_for(self):
        """A server that accepts slowly does not count as absent."""
        agent = self.serve(lambda *_: {}, timeout=30)
        path = self.server.paths['get'] + '-2'
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen(0)
            agent.get_socket = path
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(
                agent.load_balancer('lb'))) for _ in range(5)]
            for thread in threads:
                thread.start()
            for _ in threads:
                connection, _address = server.accept()
                with connection:
                    agent_server.receive(connection)
                    agent_server.answer(connection, {})
            for thread in threads:
                thread.join()
        self.assertEqual([None] * 5, answers)

    def test_malformed_answer_is_unavailable(self):
        for garbage in (b'hello', b'hello\n', b'-1\n', b'9' * 5000,
                        b'7\ngarbage', b'2\n[]', b'\n', b'1\xb2\n'):
            agent = self.serve(lambda kind, message, sock, text=garbage:
                               sock.sendall(text))
            self.unavailable(agent.set_statuses, STATUSES)
            self.unavailable(agent.load_balancer, 'lb')
            self.unavailable(agent.set_statistics, [])
        # Without a status code.
        agent = self.serve(lambda *_: {'hello': 1})
        self.unavailable(agent.set_statuses, STATUSES)
        self.unavailable(agent.set_statistics, [])

    def test_message_may_be_done_if_connection_closes_early(self):
        for part in (b'', b'20', b'20\n{"status'):
            agent = self.serve(lambda kind, message, sock, text=part:
                               sock.sendall(text))
            error = self.unavailable(agent.set_statuses, STATUSES)
            self.assertTrue(error.maybe_done, error)
