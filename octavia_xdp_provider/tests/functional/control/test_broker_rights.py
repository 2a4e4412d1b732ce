# SPDX-License-Identifier: Apache-2.0
"""The rights of an LB node's credentials on a real RabbitMQ.

Each test does what somebody could do who has taken over the node lb1: he has
its configuration file and speaks AMQP as he likes.
"""

import functools
import os
import threading
import time
import uuid

import amqp
import oslo_messaging
from oslo_messaging import exceptions

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller import node_servers
from octavia_xdp_provider.tests.functional.support import broker_limits

NODES_URL = 'OCTAVIA_XDP_TEST_NODES_URL'
NODE_URLS = 'OCTAVIA_XDP_TEST_NODE_URLS'
CONTROLLER_URL = 'OCTAVIA_XDP_TEST_CONTROLLER_URL'
CA_FILE = 'OCTAVIA_XDP_TEST_CA_FILE'


class Endpoint:
    """Notes who called. Calls of ``held`` hosts end when they may."""

    target = oslo_messaging.Target(namespace='nodes', version='1.0')

    def __init__(self):
        self.callers = []
        self.held = set()
        self.entered = threading.Semaphore(0)
        self.may_end = threading.Event()

    def report(self, context, host, report):
        if host in self.held:
            self.entered.release()
            self.may_end.wait()
        self.callers.append((host, report))
        return report


class NodeRightsTestCase(broker_limits.RightsTestCase):

    def setUp(self):
        super().setUp()
        for variable in (NODES_URL, NODE_URLS, CONTROLLER_URL, CA_FILE):
            if not os.environ.get(variable):
                self.skipTest(f'{variable} is not set; tools/test functional '
                              'runs these tests')
        self.urls = dict(zip(
            ('lb1', 'lb2'), os.environ[NODE_URLS].split(), strict=False))
        self.topic = f'test-{uuid.uuid4().hex[:8]}'

    def configure(self, url):
        return self.load(
            f'[DEFAULT]\ntransport_url = {url}\nhost = controller\n'
            f'[nodes]\ntransport_url = {os.environ[NODES_URL]}\n'
            'calls_per_second = 50\n'
            '[oslo_messaging_rabbit]\nssl = true\n'
            f'ssl_ca_file = {os.environ[CA_FILE]}\n')

    def serve(self, *hosts):
        """A controller's servers for nodes, once those answer that have
        credentials."""
        self.endpoint = Endpoint()
        servers = node_servers.NodeServers(
            self.configure(os.environ[CONTROLLER_URL]),
            lambda: hosts, {self.topic: [self.endpoint]})
        servers.ensure(hosts)
        self.addCleanup(servers.ensure, ())
        for host in self.urls.keys() & set(hosts):
            client = self.client(host, timeout=2)
            self.wait_answered(functools.partial(
                client.call, {}, 'report', host=host, report=None))
        self.endpoint.callers.clear()
        return servers

    def client(self, node, timeout=60):
        transport = rpc.transport(self.configure(self.urls[node]), host=node)
        self.addCleanup(transport.cleanup)
        return oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(
                exchange=rpc.EXCHANGE, topic=self.topic, namespace='nodes',
                version='1.0')).prepare(timeout=timeout)

    def connection(self, node, vhost):
        """AMQP with the node's credentials, to any virtual host."""
        return self.connect(self.urls[node], vhost, os.environ[CA_FILE])


class TestNodesRights(broker_limits.BrokerLimits, NodeRightsTestCase):

    def own_host(self):
        return 'lb1'

    def own_connection(self):
        return self.connection('lb1', broker.node_vhost('lb1'))

    def test_a_node_speaks_for_itself(self):
        self.serve('lb1', 'lb2')
        for node in ('lb1', 'lb2'):
            self.assertEqual(node, self.client(node).call(
                {}, 'report', host=node, report=node))
        self.assertEqual([('lb1', 'lb1'), ('lb2', 'lb2')],
                         self.endpoint.callers)

    def test_a_node_cannot_speak_for_another(self):
        self.serve('lb1', 'lb2')
        error = self.assertRaises(
            oslo_messaging.RemoteError, self.client('lb1').call, {}, 'report',
            host='lb2', report='all are down')
        self.assertEqual(errors.Refused.__name__, error.exc_type)
        self.assertEqual([], self.endpoint.callers)

    def test_a_node_enters_no_other_virtual_host(self):
        for vhost in (broker.CONTROL_VHOST, broker.node_vhost('lb2'), '/'):
            connection = self.connection('lb1', vhost)
            self.assertRaises(amqp.exceptions.NotAllowed,
                              connection.connect)
        self.connection('lb1', broker.node_vhost('lb1')).connect()

    def test_the_drivers_calls_are_not_served_to_nodes(self):
        self.serve('lb1')
        transport = rpc.transport(self.configure(self.urls['lb1']),
                                  host='lb1')
        self.addCleanup(transport.cleanup)
        self.assert_not_served(
            transport, (self.topic, rpc.CONTROLLER_TOPIC), 'driver', 'change',
            change={}, request='r', deadline=time.time() + 60)
        self.assertEqual([], self.endpoint.callers)

    def test_a_flood_of_one_node_delays_no_other(self):
        self.serve('lb1', 'lb2')
        client, other = self.client('lb1'), self.client('lb2')
        client.call({}, 'report', host='lb1', report=0)
        other.call({}, 'report', host='lb2', report=0)
        self.endpoint.held.add('lb1')
        self.addCleanup(self.endpoint.may_end.set)
        for number in range(1, 501):
            client.cast({}, 'report', host='lb1', report=number)
        # All threads that serve lb1 are busy, and the rest of the flood waits.
        for _ in range(rpc.THREADS):
            self.assertTrue(self.endpoint.entered.acquire(timeout=60))
        for number in range(1, 11):
            self.assertEqual(number, other.call(
                {}, 'report', host='lb2', report=number))
        self.assertEqual(
            [('lb1', 0), *(('lb2', number) for number in range(11))],
            self.endpoint.callers)

    def test_a_virtual_host_that_is_missing_delays_no_other(self):
        servers = self.serve('not-there', 'lb1')
        self.assertEqual(1, self.client('lb1').call(
            {}, 'report', host='lb1', report=1))
        # It would wait for the connection.
        servers.notify(['not-there'])

    def test_a_node_that_was_deleted_is_served_no_longer(self):
        servers = self.serve('lb1')
        client = self.client('lb1', timeout=2)
        self.assertEqual(1, self.client('lb1').call(
            {}, 'report', host='lb1', report=1))
        servers.ensure(())
        taken = len(self.endpoint.callers)
        for _ in range(2):
            self.assertRaises(exceptions.MessagingException, client.call,
                              {}, 'report', host='lb1', report=2)
        self.assertEqual(taken, len(self.endpoint.callers))

    def test_notifications_reach_their_node_only(self):
        notified = []
        for node in ('lb1', 'lb2'):
            self.serve_rpc(
                rpc.transport(self.configure(self.urls[node]), host=node),
                rpc.NODE_TOPIC, node, broker_limits.Wakeup(
                    rpc.WAKEUP_NAMESPACE, rpc.VERSION, node, notified))
        self.check_notified(notified, self.serve('lb1', 'lb2'), 'lb2')
