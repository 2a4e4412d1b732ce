# SPDX-License-Identifier: Apache-2.0
"""Driver, controllers and nodes over a real RabbitMQ and a real database.

Only Octavia's side is in memory; the end-to-end tests have the real one.
The broker and the server are those of a lab (tools/test functional), and
the test runs on its control host.
"""

import os
import threading
from unittest import mock
import uuid

import fixtures
from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions
import sqlalchemy as sa

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller import service
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.tests.functional.support import node
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

BROKER = 'OCTAVIA_XDP_TEST_TRANSPORT_URL'
DATABASE = 'OCTAVIA_XDP_TEST_DATABASE_URL'
POSTGRESQL = 'OCTAVIA_XDP_TEST_POSTGRESQL_URL'
# Names in rpc that each test replaces by its own.
NAMES = ('EXCHANGE', 'CONTROLLER_TOPIC', 'HEARTBEAT_TOPIC', 'NODE_TOPIC')
# The tests' user may enter the virtual host of this node.
HOST = 'lb1'


def needed(test, variable):
    """The value of a variable that a lab sets."""
    value = os.environ.get(variable)
    if not value:
        test.skipTest(f'{variable} is not set; tools/test functional runs '
                      'these tests')
    return value


def new_database(test, variable=DATABASE, add_cleanup=None):
    """URL of an empty database of the test's own on a server.

    :param add_cleanup: of the test's class, if the class shall have it.
    """
    add_cleanup = add_cleanup or test.addCleanup
    server = needed(test, variable)
    name = f'xdp_test_{uuid.uuid4().hex[:12]}'
    # PostgreSQL makes databases outside of transactions only.
    engine = sa.create_engine(server, isolation_level='AUTOCOMMIT')

    def execute(statement):
        with engine.connect() as connection:
            connection.execute(sa.text(statement))
    execute(f'CREATE DATABASE {name}')
    add_cleanup(engine.dispose)
    # The test's own connections are still there.
    force = ' WITH (FORCE)' if variable == POSTGRESQL else ''
    add_cleanup(execute, f'DROP DATABASE {name}{force}')
    return sa.make_url(server).set(database=name).render_as_string(
        hide_password=False)


def is_back():
    """Whether the driver finds that a controller answers."""
    try:
        controller_client.ControllerClient.get().check_answers()
    except exceptions.DriverError:
        return False
    return True


class ControlTestCase(waiting.Waiting, base.TestCase):
    """A driver, an Octavia in memory, and whatever a test starts."""

    SERVER = DATABASE

    def setUp(self):
        super().setUp()
        url = new_database(self, self.SERVER)
        self._broker = needed(self, BROKER).rstrip('/')
        # Topics of this test alone: another run may use the same broker,
        # where an exchange also is either for long or not.
        self.unique = uuid.uuid4().hex[:8]
        for name in NAMES:
            self.useFixture(fixtures.MonkeyPatch(
                f'octavia_xdp_provider.contracts.rpc.{name}',
                f'test-{name}-{self.unique}'))
        self.text = (
            f'[database]\nconnection = {url}\n'
            # A node's virtual host has room for so many queues only.
            '[oslo_messaging_rabbit]\namqp_auto_delete = true\n'
            'rabbit_transient_queues_ttl = 60\n'
            '[vip]\n'
            'allowed_networks = 203.0.113.0/24, 2001:db8:100::/64\n'
            '[members]\n'
            'allowed_networks = 198.18.0.0/15, 2001:db8::/32\n'
            f'[nodes]\ntransport_url = {self._broker}/{{vhost}}\n'
            'calls_per_second = 200\n'
            '[driver]\nrequest_timeout = 30\n'
            '[controller]\nlease_duration = 3\n')
        self.conf = self.configure('controller', '')
        manager = schema.context_manager(self.conf)
        schema.upgrade(manager)
        self.store = queries.Store(manager)
        self.octavia = store_base.FakeOctavia()
        patch = mock.patch.object(client, 'Octavia',
                                  lambda conf: self.octavia)
        patch.start()
        self.addCleanup(patch.stop)
        self.useFixture(fixtures.EnvironmentVariable(
            options.CONFIG_ENVIRONMENT_VARIABLE,
            self.conf.default_config_files[0]))
        controller_client.ControllerClient.forget()
        self.addCleanup(controller_client.ControllerClient.forget)
        self.driver = provider.XdpProviderDriver()

    def configure(self, host, vhost):
        return self.load(
            f'[DEFAULT]\ntransport_url = {self._broker}/{vhost}\n'
            f'host = {host}\n{self.text}')

    def start_controller(self):
        """A controller in this process, until the test ends."""
        controller = service.Controller(self.conf)
        thread = threading.Thread(target=controller.run)
        thread.start()

        def stop():
            controller.stop()
            thread.join(30)
            self.assertFalse(thread.is_alive())
        self.addCleanup(stop)
        self.assertTrue(controller.serving.wait(30))

    def node(self):
        """A node that is registered, served, and does nothing yet."""
        self.store.nodes.register(HOST)
        result = node.Node(
            self, self.configure(HOST, broker.node_vhost(HOST)), HOST)
        self.wait('controller that serves the node', result.is_served)
        return result

    def start(self):
        """A controller and a working node. Returns the node."""
        self.start_controller()
        result = self.node()
        result.start()
        return result

    # Octavia's API

    def commit(self, key):
        """Octavia commits what it has just asked the driver for."""
        row = self.store.load_balancers.get(key)
        expected = row.pending['expected']
        if expected is None:
            self.octavia.commit(self.octavia.documents[key], (),
                                {('loadbalancer', key)})
        else:
            self.octavia.commit(expected, ())

    def wait_until_active(self, key):
        self.wait('ACTIVE', lambda: (
            self.octavia.provisioning_status(key) == 'ACTIVE'))

    def do(self, key, call, *arguments):
        """A call of the driver, up to the load balancer's being ACTIVE."""
        call(*arguments)
        self.commit(key)
        self.wait_until_active(key)

    @staticmethod
    def balancer(address='203.0.113.10', **more):
        return data_models.LoadBalancer(
            loadbalancer_id=str(uuid.uuid4()), name='web', project_id='p',
            vip_address=address, admin_state_up=True, **more)

    def create(self, **more):
        """A load balancer that is ACTIVE."""
        balancer = self.balancer(**more)
        self.do(balancer.loadbalancer_id, self.driver.loadbalancer_create,
                balancer)
        return balancer

    def create_pool(self, key, **more):
        """An ACTIVE pool of a load balancer. Returns its id."""
        pool = data_models.Pool(**{
            'pool_id': str(uuid.uuid4()), 'loadbalancer_id': key,
            'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT', **more})
        self.do(key, self.driver.pool_create, pool)
        return pool.pool_id

    def names(self):
        """Return the names that a process sets in rpc to take part."""
        return {name: getattr(rpc, name) for name in NAMES}
