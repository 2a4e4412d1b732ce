# SPDX-License-Identifier: Apache-2.0
"""Drivers, controllers and nodes of two releases, over a real broker.

The controller is a process of its own. One of the release before knows the
driver's interface up to version 1.1 and the nodes' up to 2.0.
"""

import unittest

import fixtures
from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions
import oslo_messaging

from octavia_xdp_provider.agent import version1
from octavia_xdp_provider.common import options
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.common import wanted
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.tests.functional.support import control
from octavia_xdp_provider.tests.functional.support import controller_process
from octavia_xdp_provider.tests.functional.support import node
from octavia_xdp_provider.tests.support import form

# Seconds that the caller of an API would wait; none of it is used up by what
# is refused.
LIMIT_S = 120


class NodeBefore(node.Node):
    """Speaks version 2.0."""

    @staticmethod
    def _make_client(transport, timeout):
        return rpc.NodesClient(transport, timeout=timeout, version='2.0')


class NodeV1(node.Node):
    """Speaks version 1.0, with the agent's own code."""

    def __init__(self, test, conf, host):
        super().__init__(test, conf, host)
        transport = rpc.transport(conf)
        test.addCleanup(transport.cleanup)
        self._controller = rpc.NodesClientV1(transport, timeout=10)
        self._fetcher = version1.FetcherV1(
            self._controller, host,
            wanted.Cache(test.useFixture(fixtures.TempDir()).join('wanted')))
        self._reporter = version1.ReporterV1()

    def is_served(self):
        try:
            self._fetcher.fetch()
        except rpc.TRANSPORT_ERRORS:
            return False
        return True

    def work(self):
        self._fetcher.fetch()
        held = self._fetcher.wanted.documents
        self.documents = {key: document for key, (_, document)
                          in held.items()}
        self._reporter.send(self._controller, self._host, Facts(
            self._fetcher.wanted.as_of,
            {key: {'generation': generation, 'error': None, 'members': {}}
             for key, (generation, _document) in held.items()}))
        return self.documents


class Facts:
    """What the agent knows, as reports.Facts has it."""

    def __init__(self, as_of, held):
        self.as_of = as_of
        self.held = held
        self.counters = {}
        self.state = {}


class TestVersions(control.ControlTestCase):

    def start_controller_process(self, earlier):
        controller_process.start(self, self.octavia, earlier)

    def pin_driver(self, version):
        """The driver begins anew, as after a restart of octavia-api."""
        path = self.load(
            f'[upgrade_levels]\ndriver = {version}\n'
            f'{self.configuration_text()}').default_config_files[0]
        self.useFixture(fixtures.EnvironmentVariable(
            options.CONFIG_ENVIRONMENT_VARIABLE, path))
        controller_client.ControllerClient.forget()

    def configuration_text(self):
        return open(self.conf.default_config_files[0]).read().replace(
            'request_timeout = 30', f'request_timeout = {LIMIT_S}')

    def node_before(self, kind=NodeBefore):
        self.store.register_node(control.HOST)
        result = kind(self, self.configure(
            control.HOST, broker.node_vhost(control.HOST)), control.HOST)
        self.wait('controller that serves the node', result.is_served)
        return result

    def assert_works(self, made):
        """Creation, change and deletion, from the driver to a node."""
        made.start()
        balancer = self.create()
        key = balancer.loadbalancer_id
        pool_id = self.create_pool(key)
        self.do(key, self.driver.member_create, data_models.Member(
            member_id='m1', pool_id=pool_id, address='198.18.10.1',
            protocol_port=80))
        self.assertEqual({'m1'}, set(
            made.documents[key]['pools'][pool_id]['members']))
        self.driver.loadbalancer_delete(balancer)
        self.commit(key)
        self.wait('DELETED', lambda: (
            self.octavia.provisioning(key) == 'DELETED'))
        self.wait('empty store',
                  lambda: self.store.load_balancer(key) is None)
        self.assertEqual({}, made.documents)

    def test_driver_and_node_of_before_work_with_a_new_controller(self):
        self.start_controller_process(earlier=False)
        self.pin_driver('1.1')
        self.assert_works(self.node_before())

    @unittest.skipUnless(form.LONG, 'in the long form of tests only')
    def test_node_of_the_first_version_works_with_a_new_controller(self):
        self.start_controller_process(earlier=False)
        self.assert_works(self.node_before(NodeV1))

    def test_new_driver_and_node_that_are_pinned_work_with_one_of_before(
            self):
        self.start_controller_process(earlier=True)
        self.pin_driver('1.1')
        self.assert_works(self.node_before())

    def test_without_a_pin_a_controller_of_before_is_named_at_once(self):
        self.start_controller_process(earlier=True)
        self.pin_driver('1.2')
        error = self.assertRaises(
            exceptions.DriverError, self.driver.loadbalancer_create,
            self.balancer())
        self.assertIn('[upgrade_levels] driver = 1.1',
                      error.operator_fault_string)
        self.assertIn('nothing was changed', error.user_fault_string)
        self.assertEqual([], self.store.load_balancers())
        # It did answer: nothing is held against it.
        controller_client.ControllerClient.get().check_answers()
        self.node_before()
        conf = self.configure(control.HOST, broker.node_vhost(control.HOST))
        transport = rpc.transport(conf)
        self.addCleanup(transport.cleanup)
        client = rpc.NodesClient(transport, timeout=LIMIT_S)
        for call in (lambda: client.fetch(control.HOST, 0),
                     lambda: client.report(control.HOST, 1, 1, {
                         'as_of': 0, 'complete': True, 'gone': [],
                         'counters': {}, 'state': {}, 'held': {}})):
            refusal = self.assertRaises(oslo_messaging.RemoteError, call)
            self.assertTrue(rpc.is_unsupported_version(refusal), refusal)
