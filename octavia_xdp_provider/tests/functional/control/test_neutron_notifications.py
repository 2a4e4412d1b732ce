# SPDX-License-Identifier: Apache-2.0
"""Neutron's notifications on a real RabbitMQ.

They are sent as Neutron sends them, by oslo.messaging's notifier, to a
virtual host in which the listener's user has the permissions that the
administrator guide names, and no others.
"""

import contextlib
import json
import os
import shlex
import subprocess
import threading
import time
import unittest
import urllib.parse
import uuid

import amqp
import fixtures
import kombu
import oslo_messaging
from oslo_messaging import conffixture

from octavia_xdp_provider.config import options
from octavia_xdp_provider.controller.neutron_ports import notifications
from octavia_xdp_provider.tests.functional.support import control
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base

RABBITMQCTL = 'OCTAVIA_XDP_TEST_RABBITMQCTL'
# The administrator guide's pattern.
_OWN = f'^{notifications.QUEUE_PREFIX}'
PERMISSIONS = (_OWN, _OWN,
               f'^({notifications.QUEUE_PREFIX}|neutron$)')
TOPIC = 'notifications'
LONG_S = 60


class ListenerTestCase(waiting.Waiting, base.TestCase):

    LOOK = 0.3  # rabbitmqctl takes a second of a processor

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for variable in (RABBITMQCTL, control.BROKER):
            if not os.environ.get(variable):
                raise unittest.SkipTest(
                    f'{variable} is not set; tools/test functional runs '
                    'these tests')
        cls.server = urllib.parse.urlsplit(os.environ[control.BROKER])
        unique = uuid.uuid4().hex[:8]
        cls.vhost, cls.neutron, cls.own = (
            f'{name}-{unique}' for name in ('neutron', 'neutron', 'reader'))
        cls.rabbitmqctl('add_vhost', cls.vhost)
        cls.addClassCleanup(cls.rabbitmqctl, 'delete_vhost', cls.vhost)
        for user, permissions in ((cls.neutron, ('.*',) * 3),
                                  (cls.own, PERMISSIONS)):
            cls.rabbitmqctl('add_user', user, 'secret')
            cls.addClassCleanup(cls.rabbitmqctl, 'delete_user', user)
            cls.rabbitmqctl('set_permissions', '-p', cls.vhost, user,
                            *permissions)

    @staticmethod
    def rabbitmqctl(*words):
        return subprocess.run(
            [*shlex.split(os.environ[RABBITMQCTL]), '--quiet', *words],
            check=True, capture_output=True, text=True,
            stdin=subprocess.DEVNULL).stdout

    def setUp(self):
        super().setUp()
        self.hints = []
        self.is_wanted = True

    def url(self, user):
        return (f'{user}:secret@{self.server.hostname}:{self.server.port}/'
                f'{self.vhost}')

    def listen(self):
        listener = notifications.Listener(self.load(
            '[zero_touch]\nnotification_transport_url = '
            f'rabbit://{self.url(self.own)}\n'), self.hints.append,
            lambda: self.is_wanted)
        thread = threading.Thread(target=listener.run)

        def stop():
            listener.stop()
            thread.join(LONG_S)
            self.assertFalse(thread.is_alive())
        thread.start()
        self.addCleanup(stop)
        return stop

    def notifier(self):
        """Neutron's."""
        conf = options.new()
        conf([])
        self.useFixture(conffixture.ConfFixture(conf))
        conf.set_override('control_exchange', 'neutron')
        transport = oslo_messaging.get_notification_transport(
            conf, url=f'rabbit://{self.url(self.neutron)}')
        self.addCleanup(transport.cleanup)
        return oslo_messaging.Notifier(
            transport, publisher_id='network.control', driver='messagingv2',
            topics=[TOPIC])

    @staticmethod
    def update(notifier, port):
        notifier.info({}, 'port.update.end', {'port': {'id': port}})

    def connection(self, user):
        connection = kombu.Connection(f'amqp://{self.url(user)}',
                                      connect_timeout=60)
        self.addCleanup(connection.release)
        return connection

    def queues(self):
        text = self.rabbitmqctl('list_queues', '-p', self.vhost, 'name',
                                'messages', '--formatter', 'json')
        return {queue['name']: queue['messages'] for queue in json.loads(text)}

    def heard(self):
        return [port for hint in self.hints for port in sorted(hint.ports)]

    def hears(self, notifier):
        """A message that is sent until it is received."""
        port = uuid.uuid4().hex

        def attempt():
            self.update(notifier, port)
            time.sleep(0.2)
            return port in self.heard()
        self.wait('hint', attempt)
        del self.hints[:]


class TestListener(ListenerTestCase):

    def test_other_consumers_lose_nothing_and_nothing_is_left(self):
        notifier = self.notifier()
        # Somebody else's queue, as the telemetry of a cloud has it.
        channel = self.connection(self.neutron).channel()
        self.update(notifier, 'first')  # which makes the exchange
        other = kombu.Queue('telemetry', channel=channel, durable=False)
        other.queue_declare()
        other.bind_to('neutron', f'{TOPIC}.info')
        stop = self.listen()
        self.hears(notifier)
        other.purge()
        ports = [f'port-{number}' for number in range(50)]
        for port in ports:
            self.update(notifier, port)
        def numbered(hinted):
            """Without what was sent before, which may come later."""
            return [port for port in hinted if port.startswith('port-')]
        self.wait('hints', lambda: len(numbered(self.heard())) >= len(ports))
        self.assertEqual(ports, numbered(self.heard()))
        taken = []

        def take():
            while (message := other.get(no_ack=True)) is not None:
                taken.extend(notifications.parse(message.body).ports)
            return len(numbered(taken)) >= len(ports)
        self.wait('messages', take)
        self.assertEqual(ports, numbered(taken))
        self.assertEqual(1, sum(name.startswith(notifications.QUEUE_PREFIX)
                                for name in self.queues()))
        stop()
        self.wait('end of its queue', lambda: not any(
            name.startswith(notifications.QUEUE_PREFIX)
            for name in self.queues()))
        other.delete()

    def test_broker_that_ends_the_connection_is_found_again(self):
        notifier = self.notifier()
        self.update(notifier, 'first')
        log = self.useFixture(fixtures.FakeLogger())
        self.listen()
        self.hears(notifier)
        self.rabbitmqctl('close_all_user_connections', self.own, 'by a test')
        self.wait('loss', lambda: 'cannot be received' in log.output)
        self.hears(notifier)
        self.assertIn('Receiving Neutron\'s notifications again', log.output)

    @form.in_long_form
    def test_exchange_that_does_not_exist_yet(self):
        self.connection(self.neutron).channel().exchange_delete('neutron')
        log = self.useFixture(fixtures.FakeLogger())
        self.listen()
        self.wait('line', lambda: 'no exchange' in log.output)
        self.hears(self.notifier())
        self.assertEqual(1, log.output.count('cannot be received'))

    @form.in_long_form
    def test_who_does_not_lead_has_no_queue(self):
        notifier = self.notifier()
        self.update(notifier, 'first')
        self.listen()
        self.hears(notifier)
        self.is_wanted = False
        self.wait('end of its queue', lambda: not any(
            name.startswith(notifications.QUEUE_PREFIX)
            for name in self.queues()))
        self.is_wanted = True
        self.hears(notifier)

    def test_its_user_may_only_listen(self):
        self.update(self.notifier(), 'first')
        for attempt in (
                lambda channel: kombu.Producer(channel, on_return=None)
                .publish('x', exchange='neutron', routing_key='q'),
                lambda channel: channel.queue_declare('telemetry'),
                lambda channel: channel.exchange_delete('neutron')):
            connection = kombu.Connection(f'amqp://{self.url(self.own)}')
            self.addCleanup(connection.release)
            channel = connection.channel()

            def refused(act=attempt, where=channel, over=connection):
                act(where)
                with contextlib.suppress(TimeoutError):
                    over.drain_events(timeout=LONG_S)
            self.assertRaises(amqp.exceptions.AccessRefused, refused)
