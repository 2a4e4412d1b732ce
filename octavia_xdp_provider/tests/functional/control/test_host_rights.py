# SPDX-License-Identifier: Apache-2.0
"""The rights of a hypervisor's credentials on a real RabbitMQ.

They are made by ``octavia-xdp-manage host create --apply``, with the broker's
own rabbitmqctl. Each test does what somebody could do who has taken over the
hypervisor: he has its configuration and speaks AMQP as he likes. Calls are
answered by the controllers' own code over a real database.
"""

import inspect
import io
import os
import pathlib
import re
import tempfile
import unittest
from unittest import mock
import uuid

import amqp
import fixtures
import oslo_messaging

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller import host_api
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import node_servers
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.manage import app
from octavia_xdp_provider.tests.functional.support import broker_limits
from octavia_xdp_provider.tests.functional.support import control
from octavia_xdp_provider.tests.support import form

NEEDED = ('OCTAVIA_XDP_TEST_NODES_URL', 'OCTAVIA_XDP_TEST_CONTROLLER_URL',
          'OCTAVIA_XDP_TEST_CA_FILE', 'OCTAVIA_XDP_TEST_RABBITMQCTL',
          control.DATABASE)
NODE = 'lb1'
LEASE = 'test'
LONG_S = 60
FLOW = {'key': 1, 'client': '198.51.100.7', 'port': 1025, 'closing': False}


def port(number):
    return f'{number:08}-0000-4000-8000-000000000001'


@form.in_long_form
class HostRightsTestCase(broker_limits.RightsTestCase):
    """``stolen`` is the hypervisor whose credentials the test has;
    ``other`` is registered as well, if it is among ``NUMBERS``."""

    NUMBERS = (1, 2)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for variable in NEEDED:
            if not os.environ.get(variable):
                raise unittest.SkipTest(
                    f'{variable} is not set; tools/test functional runs '
                    'these tests')
        cls.nodes, cls.controller, cls.ca_file = (
            os.environ[name] for name in NEEDED[:3])
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        # The program that is on the PATH of the broker's host.
        program = cls.directory / 'rabbitmqctl'
        program.write_text(
            f'#!/bin/sh\nexec {os.environ[NEEDED[3]]} "$@"\n')
        program.chmod(0o755)
        cls.config = cls.directory / 'controller.conf'
        cls.config.write_text(
            f'[DEFAULT]\ntransport_url = {cls.controller}\n'
            'host = controller\n'
            f'[nodes]\ntransport_url = {cls.nodes}\ncalls_per_second = 50\n'
            '[zero_touch]\nnode_networks = 192.0.2.0/24\n'
            '[oslo_messaging_rabbit]\nssl = true\n'
            f'ssl_ca_file = {cls.ca_file}\n'
            '[database]\nconnection = '
            + control.new_database(cls, add_cleanup=cls.addClassCleanup)
            + '\n')
        unique = uuid.uuid4().hex[:8]
        cls.stolen, *others = (f'hv-{unique}-{number}'
                               for number in cls.NUMBERS)
        cls.other = others[0] if others else None
        manager = schema.context_manager(cls.configuration())
        schema.upgrade(manager)
        cls.store = queries.Store(manager)
        cls.urls = {}
        for host in filter(None, (cls.stolen, cls.other)):
            text = cls.manage('host', 'create', host, '--apply')
            cls.urls[host] = re.search('transport_url = (.*)$', text,
                                       re.MULTILINE)[1]
            cls.addClassCleanup(cls.delete, host)
        token = cls.store.leases.acquire(LEASE, 'test', 3600)
        cls.store.ways.store(ways.Changes(documents={
            (host, port(number)): ('port', {'id': port(number)})
            for number, host in enumerate(cls.urls, 1)}),
            LEASE, token)

    @classmethod
    def configuration(cls, url=None):
        """The controllers', or of whoever has another transport URL."""
        text = cls.config.read_text()
        if url:
            text = text.replace(f'transport_url = {cls.controller}',
                                f'transport_url = {url}')
        with tempfile.NamedTemporaryFile('w', dir=cls.directory,
                                         suffix='.conf',
                                         delete=False) as file:
            file.write(text)
        return options.load(config_files=[file.name])

    @classmethod
    def delete(cls, host):
        """Unless it is gone."""
        if host in cls.store.hypervisors.hosts():
            cls.manage('host', 'delete', host, '--apply')

    @classmethod
    def manage(cls, *arguments):
        out, error = io.StringIO(), io.StringIO()
        path = f'{cls.directory}:{os.environ["PATH"]}'
        with mock.patch.dict(os.environ, {'PATH': path}):
            status = app.Application(stdout=out, stderr=error).run([
                '--config-file', str(cls.config), *arguments])
        if status:
            raise AssertionError(error.getvalue())
        return out.getvalue()

    def setUp(self):
        super().setUp()
        # Another run may use the same broker.
        for name in ('CONTROLLER_TOPIC', 'HEARTBEAT_TOPIC'):
            self.useFixture(fixtures.MonkeyPatch(
                f'octavia_xdp_provider.contracts.rpc.{name}',
                f'test-{name}-{uuid.uuid4().hex[:8]}'))

    def transport(self, url, host=None):
        transport = rpc.transport(self.configuration(url), host=host)
        self.addCleanup(transport.cleanup)
        return transport

    def client(self, host, timeout=LONG_S):
        return host_rpc.HostsClient(
            self.transport(self.urls[host], host), timeout)

    def serve(self):
        """Serve hypervisors as controllers do, once the queue is there."""
        conf = self.configuration()
        self.passed_on = []
        servers = node_servers.NodeServers(
            conf, self.store.hypervisors.hosts, {
                host_rpc.CONTROLLER_TOPIC: [host_api.HostsEndpoint(
                    conf, self.store, lambda: None,
                    lambda *message: self.passed_on.append(message))]},
            vhost=broker.host_vhost, wakeup=host_rpc.WakeupClient)
        servers.ensure((self.stolen, self.other))
        self.addCleanup(servers.ensure, ())
        for host in (self.stolen, self.other):
            client = self.client(host, 2)
            self.wait_answered(client.fetch, host, 0)
        return servers

    def connection(self, vhost):
        """AMQP with the stolen credentials, to any virtual host."""
        return self.connect(self.urls[self.stolen], vhost, self.ca_file)

    def refused(self, call, *arguments):
        error = self.assertRaises(oslo_messaging.RemoteError, call,
                                  *arguments)
        self.assertTrue(rpc.is_refused(error), error)
        self.assertIn(f'credentials of {self.stolen}', str(error))

    def report(self, *ids):
        return {'as_of': 1, 'complete': True, 'gone': [], 'counters': {},
                'held': {key: {'generation': 99, 'ifindex': 7,
                               'error': 'it is broken'} for key in ids},
                'state': {'geneve': ['192.0.2.99']}}

    def rows(self, host):
        """Return a hypervisor's rows, but not the time of its last call."""
        return (self.store.hypervisors.objects([host]), [
            (row.host, row.state) for row in self.store.hypervisors.all()
            if row.host == host])


class TestHostRights(broker_limits.BrokerLimits, HostRightsTestCase):

    def own_host(self):
        return self.stolen

    def own_connection(self):
        return self.connection(broker.host_vhost(self.stolen))

    def test_it_reads_what_is_its_own(self):
        self.serve()
        for number, host in enumerate((self.stolen, self.other), 1):
            client = self.client(host)
            self.assertEqual([port(number)], [
                entry['id'] for entry in client.fetch(host, 0)['changed']])
            self.assertEqual([port(number)], [
                entry['id']
                for entry in client.documents(host, [port(number)])])

    def test_it_does_not_read_what_others_are_sent(self):
        self.serve()
        client = self.client(self.stolen)
        self.refused(client.fetch, self.other, 0)
        self.refused(client.compare, self.other)
        self.refused(client.documents, self.other, [port(2)])
        # In its own name, with the other's ids.
        self.assertEqual([], client.documents(self.stolen, [port(2)]))
        self.assertEqual({port(1)}, set(
            client.compare(self.stolen)['generations']))

    def test_it_does_not_report_for_another(self):
        self.serve()
        before = self.rows(self.other)
        client = self.client(self.stolen)
        self.refused(client.report, self.other, 1, 1, self.report(port(2)))
        client.report(self.stolen, 1, 1, self.report(port(1), port(2)))
        self.assertEqual(before, self.rows(self.other))
        objects, _ = self.rows(self.stolen)
        self.assertEqual([(port(1), 'it is broken')],
                         [(row.id, row.error) for row in objects])

    def test_it_calls_nothing_in_anothers_name(self):
        self.serve()
        before = self.rows(self.other)
        client = self.client(self.stolen)
        calls = {
            'fetch': (self.other, 0), 'compare': (self.other,),
            'documents': (self.other, [port(2)]),
            'report': (self.other, 1, 1, self.report(port(2))),
            'flows': (self.other, port(2), [FLOW])}
        self.assertEqual({name for name, _ in inspect.getmembers(
            host_api.HostsEndpoint, inspect.isfunction)
            if not name.startswith('_')}, set(calls))
        for name, arguments in calls.items():
            self.refused(getattr(client, name), *arguments)
        self.assertEqual(before, self.rows(self.other))

    def test_its_flows_reach_nobody_who_has_not_got_its_port(self):
        self.serve()
        client = self.client(self.stolen)
        for number in (1, 2, 3):
            self.assertFalse(client.flows(self.stolen, port(number), [FLOW]))
        self.assertEqual([], self.passed_on)

    def test_it_enters_no_other_virtual_host(self):
        for vhost in (broker.CONTROL_VHOST, broker.host_vhost(self.other),
                      broker.node_vhost(NODE),
                      broker.node_vhost(self.stolen), '/'):
            self.assertRaises(
                (amqp.exceptions.NotAllowed, amqp.exceptions.NotFound),
                self.connection(vhost).connect)
        self.connection(broker.host_vhost(self.stolen)).connect()

    def test_calls_of_driver_and_nodes_are_not_served_to_it(self):
        servers = self.serve()
        called = []
        self.serve_rpc(
            rpc.transport(self.configuration()), rpc.CONTROLLER_TOPIC,
            'controller', _Driver(called), node_api.NodesEndpoint(
                self.store, lambda *_: called.append('node'), lambda: None))
        # The driver itself is answered.
        rpc.DriverClient(self.transport(self.controller)).ping(LONG_S)
        self.assertEqual(['ping'], called)
        stolen = self.transport(self.urls[self.stolen], self.stolen)
        for namespace, method, arguments in (
                (rpc.DRIVER_NAMESPACE, 'ping', {}),
                (rpc.DRIVER_NAMESPACE, 'cancel', {'request': 'r'}),
                (rpc.NODES_NAMESPACE, 'fetch', {'host': NODE, 'since': 0})):
            self.assert_not_served(
                stolen, (rpc.CONTROLLER_TOPIC, host_rpc.CONTROLLER_TOPIC),
                namespace, method, **arguments)
        self.assertEqual(['ping'], called)
        del servers

    def test_notifications_reach_their_hypervisor_only(self):
        notified = []
        for host in (self.stolen, self.other):
            self.serve_rpc(
                self.transport(self.urls[host], host), host_rpc.HOST_TOPIC,
                host, broker_limits.Wakeup(
                    host_rpc.WAKEUP_NAMESPACE, host_rpc.VERSION, host,
                    notified))
        self.check_notified(notified, self.serve(), self.other)


class TestDeletedHost(HostRightsTestCase):

    NUMBERS = (1,)

    def test_credentials_end_with_the_hypervisor(self):
        own = broker.host_vhost(self.stolen)
        self.connection(own).connect()
        self.delete(self.stolen)
        self.assertRaises(
            (amqp.exceptions.AccessRefused, amqp.exceptions.NotAllowed),
            self.connection(own).connect)


class _Driver:
    """Stands in for the driver's endpoint."""

    target = oslo_messaging.Target(namespace=rpc.DRIVER_NAMESPACE,
                                   version=rpc.DRIVER_VERSION)

    def __init__(self, called):
        self._called = called

    def ping(self, context):
        self._called.append('ping')
        return {'now': 0.0}

    def cancel(self, context, request):
        self._called.append('cancel')
