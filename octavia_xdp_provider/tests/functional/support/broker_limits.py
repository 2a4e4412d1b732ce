# SPDX-License-Identifier: Apache-2.0
"""The reach of a virtual host's credentials on the broker, and the limits of
what the broker stores for them."""

import uuid

import amqp
import kombu
import oslo_messaging
from oslo_messaging import exceptions

from octavia_xdp_provider.contracts import queue_names
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.tests.functional.support import amqp_connection
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base


class Wakeup:
    """An agent that notes its name when it is notified."""

    def __init__(self, namespace, version, host, notified):
        self.target = oslo_messaging.Target(namespace=namespace,
                                            version=version)
        self._host, self._notified = host, notified

    def changed(self, context, since=None, page=None):
        self._notified.append(self._host)


class RightsTestCase(waiting.Waiting, base.TestCase):

    def connect(self, url, vhost, ca_file):
        """AMQP to a virtual host, not yet connected."""
        connection = amqp_connection.to(url, vhost, ca_file)
        self.addCleanup(connection.release)
        return connection

    def serve_rpc(self, transport, topic, host, *endpoints):
        server = rpc.server(transport, topic, host, list(endpoints))
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)

    def wait_answered(self, call, *arguments):
        """A call that comes before its server is lost."""
        def answered():
            try:
                call(*arguments)
            except exceptions.MessagingTimeout:
                return False
            return True
        self.wait('answer', answered)

    def assert_not_served(self, transport, topics, namespace, method,
                          **arguments):
        for topic in topics:
            client = oslo_messaging.get_rpc_client(
                transport, oslo_messaging.Target(
                    exchange=rpc.EXCHANGE, topic=topic, namespace=namespace,
                    version='1.0')).prepare(timeout=2)
            self.assertRaises(
                (exceptions.MessagingTimeout, oslo_messaging.RemoteError,
                 oslo_messaging.MessageUndeliverable),
                client.call, {}, method, **arguments)

    def check_notified(self, notified, servers, host):
        """Only this one of the hosts whose Wakeup notes it is notified."""
        self.wait('notification', lambda: (
            servers.notify([host]), notified)[1])
        self.assertEqual({host}, set(notified))


class BrokerLimits:
    """To be mixed into a RightsTestCase that has such credentials."""

    def own_host(self):
        raise NotImplementedError

    def own_connection(self):
        """AMQP to their virtual host, not yet connected."""
        raise NotImplementedError

    def test_they_cannot_fill_the_broker(self):
        channel = self.own_connection().channel()
        name = f'reply_{self.own_host()}:{queue_names.NUMBERS - 1}'
        queue = kombu.Queue(name, exchange='', routing_key=name,
                            auto_delete=True, channel=channel)
        # A transport of this process may have had it.
        queue.delete()
        queue.declare()
        self.addCleanup(queue.delete)
        body = 'x' * (1024 * 1024)
        # To the exchange that has all queues they may not write.
        exchange = kombu.Exchange(queue_names.EXCHANGE, 'topic',
                                  durable=False, channel=channel)
        exchange.declare()
        queue.bind_to(exchange.name, name)
        producer = kombu.Producer(channel, exchange)
        for _ in range(2 * broker.QUEUE_BYTES_MAX // len(body)):
            producer.publish(body, routing_key=name)
        self.wait('message', lambda: queue.queue_declare(passive=True)
                  .message_count > 0)
        held = queue.queue_declare(passive=True).message_count
        self.assertLessEqual(held * len(body), broker.QUEUE_BYTES_MAX)

    def test_they_declare_what_the_agent_needs_alone(self):
        """RabbitMQ limits queues of a virtual host, and exchanges not."""
        names = ('x', f'{queue_names.EXCHANGE}x', rpc.CONTROLLER_TOPIC,
                 f'reply_{uuid.uuid4().hex}', f'reply_{self.own_host()}:99')
        for name in names:
            for declare in (
                    lambda channel, name=name: kombu.Queue(
                        name, channel=channel).queue_declare(),
                    lambda channel, name=name: kombu.Exchange(
                        name, channel=channel).declare()):
                connection = self.own_connection()
                self.assertRaises(amqp.exceptions.AccessRefused, declare,
                                  connection.channel())
                connection.release()

    def test_they_cannot_open_connections_without_end(self):
        def open_all():
            # The broker counts them a moment later than it accepts them.
            for _ in range(4 * broker.CONNECTIONS_MAX):
                self.own_connection().connect()
        self.assertRaises(amqp.exceptions.NotAllowed, open_all)
