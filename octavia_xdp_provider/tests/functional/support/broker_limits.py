# SPDX-License-Identifier: Apache-2.0
"""What the broker holds for whoever has credentials of a virtual host."""

import uuid

import amqp
import kombu

from octavia_xdp_provider.contracts import queue_names
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import broker


class BrokerLimits:
    """To be mixed into a test case that waits, and has such credentials."""

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
