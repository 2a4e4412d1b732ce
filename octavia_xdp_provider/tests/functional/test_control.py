# SPDX-License-Identifier: Apache-2.0
"""Driver, controller and node over a real RabbitMQ and a real database.

Only Octavia's side is in memory; the end-to-end tests have the real one.
The broker and the server are those of a lab (tools/test functional), and
the test runs on its control host.
"""

import os
import threading
import time
from unittest import mock
import uuid

import fixtures
from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions
import oslo_messaging
import sqlalchemy as sa

from octavia_xdp_provider.common import options
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.controller import octavia
from octavia_xdp_provider.controller import service
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import test_store

BROKER = 'OCTAVIA_XDP_TEST_TRANSPORT_URL'
DATABASE = 'OCTAVIA_XDP_TEST_DATABASE_URL'


def _needed(test, variable):
    value = os.environ.get(variable)
    if not value:
        test.skipTest(f'{variable} is not set; tools/test functional runs '
                      'these tests')
    return value


def _new_database(test):
    """URL of an empty database of the test's own on the server."""
    server = _needed(test, DATABASE)
    name = f'xdp_test_{uuid.uuid4().hex[:12]}'
    engine = sa.create_engine(server)

    def execute(statement):
        with engine.begin() as connection:
            connection.execute(sa.text(statement))
    execute(f'CREATE DATABASE {name}')
    test.addCleanup(engine.dispose)
    test.addCleanup(execute, f'DROP DATABASE {name}')
    return sa.make_url(server).set(database=name).render_as_string(
        hide_password=False)


class TestStoreOnMariaDB(test_store.TestStore):
    """The store's own tests once more, on a server."""

    def database(self):
        return _new_database(self)


class TestSchemaOnMariaDB(test_store.TestSchema):

    def database(self):
        return _new_database(self)


class TestControl(base.TestCase):

    def setUp(self):
        super().setUp()
        self.url = _new_database(self)
        broker = _needed(self, BROKER)
        # Topics of this test alone: another run may use the same broker.
        unique = uuid.uuid4().hex[:8]
        for name in ('CONTROLLER_TOPIC', 'NODE_TOPIC'):
            patch = mock.patch.object(rpc, name, f'test-{name}-{unique}')
            patch.start()
            self.addCleanup(patch.stop)
        self.text = (
            f'[DEFAULT]\ntransport_url = {broker}\nhost = test\n'
            '[vip]\n'
            'allowed_networks = 203.0.113.0/24, 2001:db8:100::/64\n'
            '[driver]\nrequest_timeout = 30\n')
        self.conf = self.configure(self.text)
        schema.upgrade(schema.context_manager(self.conf))
        self.octavia = store_base.FakeOctavia()
        patch = mock.patch.object(octavia, 'Octavia',
                                  lambda conf: self.octavia)
        patch.start()
        self.addCleanup(patch.stop)
        self.useFixture(fixtures.EnvironmentVariable(
            options.CONFIG_ENVIRONMENT_VARIABLE,
            self.conf.default_config_files[0]))
        patch = mock.patch.object(controller_client.ControllerClient,
                                  '_instance', None)
        patch.start()
        self.addCleanup(patch.stop)
        self.driver = provider.XdpProviderDriver()
        self.controller = None
        self.addCleanup(self.stop_controller)

    def configure(self, text):
        return self.load(f'[database]\nconnection = {self.url}\n{text}')

    def start_controller(self):
        self.controller = service.Controller(self.conf)
        self.thread = threading.Thread(target=self.controller.run)
        self.thread.start()
        self.assertTrue(self.controller.serving.wait(30))
        self.store = self.controller._store

    def stop_controller(self):
        if self.controller is not None:
            self.controller.stop()
            self.thread.join(30)
            self.assertFalse(self.thread.is_alive())
        self.controller = None

    def balancer(self, address='203.0.113.10', **more):
        return data_models.LoadBalancer(
            loadbalancer_id=str(uuid.uuid4()), name='web', project_id='p',
            vip_address=address, admin_state_up=True, **more)

    def create(self, **more):
        balancer = self.balancer(**more)
        self.driver.loadbalancer_create(balancer)
        self.octavia.documents[balancer.loadbalancer_id] = (
            self.store.load_balancer(balancer.loadbalancer_id).document)
        return balancer

    def wait(self, what, condition, timeout=20):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f'no {what} within {timeout} s')
            time.sleep(0.05)

    def node(self):
        """A node that does at once what it fetches; (fetch, notified)."""
        transport = rpc.transport(self.configure(self.text))
        client = rpc.NodesClient(transport)
        notified = threading.Event()

        class Wakeup:
            target = oslo_messaging.Target(
                namespace=rpc.WAKEUP_NAMESPACE, version=rpc.VERSION)

            def changed(self, context):
                notified.set()

        server = rpc.server(transport, rpc.NODE_TOPIC, 'node', [Wakeup()])
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)

        def work():
            answer = client.fetch('node', {})
            client.report('node', {
                'as_of': answer['as_of'], 'synced': {
                    key: {'generation': generation, 'error': None}
                    for key, generation in answer['generations'].items()},
                'members': {}, 'counters': {}, 'state': {}})
            return answer
        return work, notified

    def test_from_the_driver_to_a_node_and_back(self):
        self.start_controller()
        work, notified = self.node()
        work()
        balancer = self.create()
        key = balancer.loadbalancer_id
        self.assertTrue(notified.wait(10), 'the node was not notified')
        self.assertEqual('203.0.113.10',
                         work()['documents'][key]['vip_address'])
        self.wait('ACTIVE', lambda: (
            self.octavia.provisioning(key) == 'ACTIVE'))
        notified.clear()
        self.driver.loadbalancer_delete(balancer)
        self.assertTrue(notified.wait(10), 'the node was not notified')
        self.assertEqual({}, work()['generations'])
        self.wait('DELETED', lambda: (
            self.octavia.provisioning(key) == 'DELETED'))
        self.wait('empty store',
                  lambda: self.store.load_balancer(key) is None)

    def test_refusals_come_back_as_octavia_wants_them(self):
        self.start_controller()
        self.create()
        self.assertRaises(exceptions.Conflict,
                          self.driver.loadbalancer_create, self.balancer())
        error = self.assertRaises(
            exceptions.UnsupportedOptionError,
            self.driver.loadbalancer_create, self.balancer('192.0.2.1'))
        self.assertIn('vip_address', error.user_fault_string)
        self.assertRaises(
            exceptions.DriverError, self.driver.member_create,
            data_models.Member(member_id='m', pool_id='nobody',
                               address='198.18.10.11', protocol_port=80))
        self.assertEqual(1, len(self.store.load_balancers()))

    def test_rules_that_span_objects_come_back_as_refusals(self):
        self.start_controller()
        balancer = self.create()
        pool = data_models.Pool(
            pool_id=str(uuid.uuid4()), protocol='TCP',
            loadbalancer_id=balancer.loadbalancer_id,
            lb_algorithm='SOURCE_IP_PORT')
        self.driver.pool_create(pool)
        self.driver.listener_create(data_models.Listener(
            listener_id=str(uuid.uuid4()), protocol='TCP', protocol_port=80,
            loadbalancer_id=balancer.loadbalancer_id,
            default_pool_id=pool.pool_id))
        error = self.assertRaises(
            exceptions.UnsupportedOptionError, self.driver.member_create,
            data_models.Member(member_id='m', pool_id=pool.pool_id,
                               address='198.18.10.11', protocol_port=81))
        self.assertIn('protocol_port', error.user_fault_string)

    def test_ipv6_and_options_reach_the_node(self):
        self.start_controller()
        work, _notified = self.node()
        work()
        flavor = {'encapsulation': 'gue', 'member_port': 'rewrite',
                  'new_flow_rate': 100}
        balancer = self.create(address='2001:DB8:100::10', flavor=flavor)
        key = balancer.loadbalancer_id
        self.assertRaises(
            exceptions.Conflict, self.driver.loadbalancer_create,
            self.balancer('2001:db8:100:0::10'))
        pool_id, listener_id = str(uuid.uuid4()), str(uuid.uuid4())
        self.driver.pool_create(data_models.Pool(
            pool_id=pool_id, loadbalancer_id=key, protocol='SCTP',
            lb_algorithm='SOURCE_IP', session_persistence={
                'type': 'SOURCE_IP', 'persistence_timeout': 60,
                'persistence_granularity': 'ffff:ffff:ffff:ffff::'}))
        self.driver.listener_create(data_models.Listener(
            listener_id=listener_id, loadbalancer_id=key, protocol='SCTP',
            protocol_port=80, default_pool_id=pool_id,
            allowed_cidrs=['2001:db8:2::/48', '2001:db8:1::/48']))
        self.driver.member_create(data_models.Member(
            member_id='m1', pool_id=pool_id, address='198.18.10.11',
            protocol_port=8080))
        # One stays and drains, others come.
        self.driver.member_batch_update(pool_id, [
            data_models.Member(member_id='m1', address='198.18.10.11',
                               protocol_port=8080, weight=0),
            data_models.Member(member_id='m2', address='2001:DB8::12',
                               protocol_port=80, backup=True)])
        self.driver.pool_update(
            data_models.Pool(pool_id=pool_id, loadbalancer_id=key),
            data_models.Pool(pool_id=pool_id, session_persistence={
                'persistence_timeout': 90}))
        self.wait('placement', lambda: key in work()['documents'])
        document = work()['documents'][key]
        self.assertEqual(('2001:db8:100::10', flavor),
                         (document['vip_address'], document['flavor']))
        self.assertEqual(['2001:db8:1::/48', '2001:db8:2::/48'],
                         document['listeners'][listener_id]['allowed_cidrs'])
        pool = document['pools'][pool_id]
        self.assertEqual(
            {'type': 'SOURCE_IP', 'persistence_timeout': 90,
             'persistence_granularity': 'ffff:ffff:ffff:ffff::'},
            pool['session_persistence'])
        self.assertEqual(
            {'m1': ('198.18.10.11', 8080, 0, False),
             'm2': ('2001:db8::12', 80, 1, True)},
            {name: (member['address'], member['protocol_port'],
                    member['weight'], member['backup'])
             for name, member in pool['members'].items()})
        self.octavia.documents[key] = document
        work()
        self.wait('ACTIVE', lambda: (
            self.octavia.provisioning(key) == 'ACTIVE'))
        self.assertEqual('DRAINING', self.octavia.operating('m1'))

    def test_rules_of_flavors_come_back_as_refusals(self):
        self.start_controller()
        for number, (flavor, address) in enumerate((
                ({'encapsulation': 'dscp', 'dscp': 5}, '2001:db8::1'),
                ({'encapsulation': 'srv6'}, '198.18.10.11'))):
            balancer = self.create(address=f'203.0.113.{20 + number}',
                                   flavor=flavor)
            pool_id = str(uuid.uuid4())
            self.driver.pool_create(data_models.Pool(
                pool_id=pool_id, protocol='TCP',
                loadbalancer_id=balancer.loadbalancer_id,
                lb_algorithm='SOURCE_IP_PORT'))
            error = self.assertRaises(
                exceptions.UnsupportedOptionError,
                self.driver.member_create, data_models.Member(
                    member_id='m', pool_id=pool_id, address=address,
                    protocol_port=80))
            self.assertIn("'address'", error.user_fault_string)
            self.assertEqual({}, self.store.load_balancer(
                balancer.loadbalancer_id).document['pools'][pool_id][
                    'members'])

    def test_without_a_controller_a_request_fails_and_is_not_done_later(self):
        balancer = self.balancer()
        client = controller_client.ControllerClient.get()
        with mock.patch.object(client._client, '_timeout', 3):
            error = self.assertRaises(
                exceptions.DriverError, self.driver.loadbalancer_create,
                balancer)
        self.assertIn('did not answer', error.user_fault_string)
        self.start_controller()
        time.sleep(2)
        self.assertEqual([], self.store.load_balancers())
        self.create()

    def test_concurrent_changes_are_all_kept(self):
        """Concurrent changes of one load balancer are all kept."""
        self.start_controller()
        balancer = self.create()
        pool_id = str(uuid.uuid4())
        self.driver.pool_create(data_models.Pool(
            pool_id=pool_id, protocol='TCP',
            loadbalancer_id=balancer.loadbalancer_id,
            lb_algorithm='SOURCE_IP_PORT'))
        failed = []

        def add(number):
            try:
                self.driver.member_create(data_models.Member(
                    member_id=f'm{number}', pool_id=pool_id,
                    address=f'198.18.10.{number}', protocol_port=80))
            except Exception as error:
                failed.append(error)
        threads = [threading.Thread(target=add, args=(number,))
                   for number in range(1, 41)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failed)
        document = self.store.load_balancer(
            balancer.loadbalancer_id).document
        self.assertEqual(40, len(document['pools'][pool_id]['members']))

    def test_a_second_process_writes_too(self):
        """Writers of two processes do not lose each other's changes."""
        self.start_controller()
        balancer = self.create()
        other = queries.Store(schema.context_manager(self.conf))
        key = balancer.loadbalancer_id

        def rename(store, name):
            def change(document):
                names = document['name'].split() + [name]
                return dict(document, name=' '.join(names))
            for _ in range(20):
                store.change(key, change)
        threads = [threading.Thread(target=rename, args=(store, name))
                   for store, name in ((self.store, 'a'), (other, 'b'))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        names = self.store.load_balancer(key).document['name'].split()
        self.assertEqual((20, 20), (names.count('a'), names.count('b')))
