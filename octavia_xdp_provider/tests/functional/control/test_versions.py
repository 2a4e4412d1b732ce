# SPDX-License-Identifier: Apache-2.0
"""Drivers, controllers and nodes of two releases, over a real broker.

One of the two is a stand-in of the next release: its controller, a process of
its own, and its drivers and nodes have a version more of their interfaces.
"""

import fixtures
from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions
from oslo_config import cfg
import oslo_messaging

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.tests.functional.support import control
from octavia_xdp_provider.tests.functional.support import controller_process

# Seconds that the caller of an API would wait; none of it is used up by what
# is refused.
LIMIT_S = 120
NEXT = controller_process.NEXT_VERSION


class TestVersions(control.ControlTestCase):

    def start_controller_process(self, is_next):
        controller_process.start(self, self.octavia, is_next)

    def be_next(self):
        """Drivers and nodes of this process are of the next release."""
        for name in ('DRIVER_VERSIONS', 'NODES_VERSIONS'):
            self.useFixture(fixtures.MockPatchObject(
                rpc, name, (*getattr(rpc, name), NEXT)))
        self.useFixture(fixtures.MockPatch(
            'octavia_xdp_provider.config.options.GROUPS', {
                **options.GROUPS, 'upgrade_levels': [
                    cfg.StrOpt(name, default=NEXT, choices=[rpc.VERSION, NEXT])
                    for name in ('driver', 'nodes')]}))

    def restart_driver(self, more=''):
        """The driver starts over, as after a restart of octavia-api."""
        path = self.load(
            f'{more}\n{self.configuration_text()}').default_config_files[0]
        self.useFixture(fixtures.EnvironmentVariable(
            options.CONFIG_ENVIRONMENT_VARIABLE, path))
        controller_client.ControllerClient.forget()

    def configuration_text(self):
        return open(self.conf.default_config_files[0]).read().replace(
            'request_timeout = 30', f'request_timeout = {LIMIT_S}')

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
                  lambda: self.store.load_balancers.get(key) is None)
        self.assertEqual({}, made.documents)

    def test_driver_and_node_of_today_work_with_the_next_controller(self):
        self.start_controller_process(is_next=True)
        self.restart_driver()
        self.assert_works(self.node())

    def test_next_driver_and_node_that_are_pinned_work_with_one_of_today(self):
        self.start_controller_process(is_next=False)
        self.be_next()
        self.restart_driver(f'[upgrade_levels]\ndriver = {rpc.VERSION}')
        # The version of a pinned agent, which rpc.NodesClient has by default.
        self.assert_works(self.node())

    def test_without_a_pin_the_next_driver_and_node_are_told_what_to_do(self):
        self.start_controller_process(is_next=False)
        self.be_next()
        self.restart_driver()
        error = self.assertRaises(
            exceptions.DriverError, self.driver.loadbalancer_create,
            self.balancer())
        self.assertIn(f'[upgrade_levels] driver = {rpc.VERSION}',
                      error.operator_fault_string)
        self.assertIn('nothing was changed', error.user_fault_string)
        self.assertEqual([], self.store.load_balancers.select())
        # It did answer: nothing is held against it.
        controller_client.ControllerClient.get().check_answers()
        self.node()
        conf = self.configure(control.HOST, broker.node_vhost(control.HOST))
        transport = rpc.transport(conf)
        self.addCleanup(transport.cleanup)
        client = rpc.NodesClient(transport, timeout=LIMIT_S, version=NEXT)
        for call in (lambda: client.fetch(control.HOST, 0),
                     lambda: client.report(control.HOST, 1, 1, {
                         'as_of': 0, 'complete': True, 'gone': [],
                         'counters': {}, 'state': {}, 'held': {}})):
            refusal = self.assertRaises(oslo_messaging.RemoteError, call)
            self.assertTrue(rpc.is_unsupported_version(refusal), refusal)
