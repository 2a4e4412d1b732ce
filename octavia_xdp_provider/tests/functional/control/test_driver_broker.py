# SPDX-License-Identifier: Apache-2.0
"""Calls of the driver end in time, whatever the real broker does."""

import socket
import threading
import time
import uuid

import fixtures
from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions
import oslo_messaging
import sqlalchemy as sa

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.tests.functional.support import broken_broker
from octavia_xdp_provider.tests.functional.support import control
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base

LIMIT_S = 3
# Time that a call may take beyond its limit: on any machine, the test can
# tell a call that ends from one that does not.
SLACK_S = 25


class Controller:
    """Answers as a controller does, and keeps what it is asked."""

    target = oslo_messaging.Target(namespace=rpc.DRIVER_NAMESPACE,
                                   version=rpc.DRIVER_VERSION)

    def __init__(self):
        self.requests = {}
        self.canceled = set()
        self.dead = threading.Event()

    def ping(self, context):
        return {'now': time.time()}

    def change(self, context, change, request, deadline, reports_end):
        self.requests[request] = (change, deadline, time.time())
        if self.dead.is_set():
            time.sleep(LIMIT_S + 1)
        return {'accepted': request, 'now': time.time()}

    def cancel(self, context, request):
        self.canceled.add(request)


class TestBroker(waiting.Waiting, base.TestCase):

    def setUp(self):
        super().setUp()
        url = sa.make_url(control.needed(self, control.BROKER))
        self.topic = f'test-controller-{uuid.uuid4().hex[:8]}'
        self.useFixture(fixtures.MonkeyPatch(
            'octavia_xdp_provider.contracts.rpc.CONTROLLER_TOPIC', self.topic))
        self.broker = self.useFixture(broken_broker.Broker(
            (url.host, url.port)))
        self.url = url
        self.configure(self.broker.port)
        controller_client.ControllerClient.forget()
        self.addCleanup(controller_client.ControllerClient.forget)
        self.driver = provider.XdpProviderDriver()
        self.controller = Controller()
        transport = rpc.transport(self.load(
            f'[DEFAULT]\ntransport_url = {self.text_of(url.port)}\n'))
        server = rpc.server(transport, self.topic, 'test', [self.controller])
        server.start()
        self.addCleanup(transport.cleanup)
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)

    def text_of(self, port):
        host = self.url.host if port == self.url.port else '127.0.0.1'
        return self.url.set(host=host, port=port).render_as_string(
            hide_password=False)

    def configure(self, port):
        path = self.create_tempfiles([(
            'test', f'[DEFAULT]\ntransport_url = {self.text_of(port)}\n'
            f'[driver]\nrequest_timeout = {LIMIT_S}\n')], ext='.conf')[0]
        self.useFixture(fixtures.EnvironmentVariable(
            options.CONFIG_ENVIRONMENT_VARIABLE, path))

    def change(self):
        self.driver.member_delete(data_models.Member(
            member_id=str(uuid.uuid4()), pool_id='p'))

    def fails(self, limit_s):
        """A call fails within a limit; the seconds that it took."""
        before = time.monotonic()
        self.assertRaises(exceptions.DriverError, self.change)
        passed = time.monotonic() - before
        self.assertLess(passed, limit_s + SLACK_S)
        return passed

    def wait_until_back(self):
        self.wait('answer of a controller', control.is_back)

    def test_a_host_that_accepts_and_never_answers(self):
        self.broker.hang()
        self.fails(LIMIT_S)
        # Known by now: nobody waits.
        started = threading.active_count()
        for _ in range(20):
            self.fails(0)
        self.assertEqual(started, threading.active_count())
        self.broker.go_on()
        self.wait_until_back()
        self.change()
        # A late message arrived after its deadline, and was refused.
        stored = [row for row in self.controller.requests.values()
                  if row[2] <= row[1]]
        self.assertEqual(1, len(stored))

    def test_a_port_where_nobody_listens(self):
        with socket.create_server(('127.0.0.1', 0)) as unused:
            port = unused.getsockname()[1]
        self.configure(port)
        self.fails(LIMIT_S)
        self.fails(0)

    def test_a_network_that_swallows_packets(self):
        """A listener whose queue is full answers no further SYN."""
        with socket.socket() as listener:
            listener.bind(('127.0.0.1', 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            full = []
            for _ in range(4):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(('127.0.0.1', port))
                full.append(client)
            self.addCleanup(lambda: [client.close() for client in full])
            self.configure(port)
            self.fails(LIMIT_S)
            self.fails(0)

    def test_a_broker_that_hangs_after_connecting(self):
        self.change()
        self.broker.hang()
        self.fails(LIMIT_S)
        self.fails(0)
        self.broker.go_on()
        self.wait_until_back()
        self.change()

    def test_a_broker_that_is_started_again(self):
        self.change()
        self.broker.hang()
        self.broker.cut()
        self.fails(LIMIT_S)
        self.broker.go_on()
        self.broker.cut()
        self.wait_until_back()
        self.change()

    def test_a_controller_that_is_slow_is_asked_to_forget_it(self):
        self.change()
        known = set(self.controller.requests)
        self.controller.dead.set()
        self.fails(LIMIT_S)
        self.controller.dead.clear()
        self.wait_until_back()
        given_up = set(self.controller.requests) - known
        self.assertEqual(given_up, self.controller.canceled)
        self.change()
