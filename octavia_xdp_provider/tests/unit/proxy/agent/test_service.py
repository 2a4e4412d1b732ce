# SPDX-License-Identifier: Apache-2.0
"""The agent of a proxy node with a controller over RPC, and a test in place
of the launcher."""

import fcntl
import json
import os
import pathlib
from unittest import mock

import fixtures

from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.process.agents import service as agents_service
from octavia_xdp_provider.proxy.agent import service
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.proxy.agent import node

ID = documents.uuid_of('load balancer')
WEB, WEBS = documents.uuid_of('web'), documents.uuid_of('webs')
MEMBER = documents.uuid_of('m1')


def tree(**more):
    """:param more: fields of the listener."""
    return base.tree(
        listeners={WEB: {'protocol': 'HTTP', 'protocol_port': 80,
                         'default_pool_id': WEBS, **more}},
        pools={WEBS: {'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN',
                      'members': {MEMBER: base.member('198.18.10.11')}}})


class TestProxyAgent(store_base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.run_directory = self.directory / 'run'
        (self.run_directory / 'state').mkdir(parents=True)
        lock = os.open(self.run_directory / 'launcher.lock',
                       os.O_WRONLY | os.O_CREAT)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        haproxy = self.directory / 'haproxy'
        haproxy.write_text('#!/bin/sh\necho "HAProxy version 2.6.12"\n')
        haproxy.chmod(0o755)
        self.woken = []

    def serve(self):
        """A controller; its transport is the process itself."""
        conf = self.load('[DEFAULT]\ntransport_url = fake://\n')
        server = rpc.server(
            rpc.transport(conf), rpc.CONTROLLER_TOPIC, 'controller',
            [node_api.NodesEndpoint(self.store, lambda *_: None,
                                    lambda: None)])
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)

    def start(self):
        agent = service.ProxyAgent(self.load(
            '[DEFAULT]\nhost = proxy1\ntransport_url = fake://\n'
            f'[proxy]\nrun_directory = {self.run_directory}\n'
            f'state_directory = {self.directory}/own\n'
            f'haproxy = {self.directory}/haproxy\nreport_interval = 1\n'
            'listeners_max = 77\n'))
        self.thread = self.run_in_thread(agent)
        return agent

    def launch(self):
        """Return the launch file, None while there is none."""
        path = self.run_directory / 'wanted' / ID / 'launch.json'
        return json.loads(path.read_text()) if path.exists() else None

    def answer(self, **more):
        """Answer as the launcher, with what is wanted or ``more``."""
        launch = self.launch()
        state = {**node.STATE, 'certificates': launch['certificates'],
                 **dict.fromkeys(('configuration_hash', 'judged_hash'),
                                 launch['configuration_hash']), **more}
        new = self.run_directory / 'new'
        new.write_text(json.dumps(state))
        new.rename(self.run_directory / 'state' / f'{ID}.json')

    def placement(self):
        placed, = self.store.placements.select([ID])
        return placed

    def wait_synced(self):
        generation = self.store.load_balancers.get(ID).generation
        self.wait_until(
            lambda: self.placement().synced_generation == generation)

    def test_document_goes_to_the_launcher_and_its_state_to_controllers(self):
        self.store.load_balancers.create(spec.document(ID, tree()))
        self.store.nodes.register('proxy1', role='proxy',
                                  addresses=['198.51.100.7'])
        self.store.placements.place(ID, add=['proxy1'])
        self.serve()
        agent = self.start()
        self.wait_until(self.launch)
        self.assertEqual([('198.18.10.11', 80)], [
            (member['address'], member['port'])
            for member in self.launch()['members']])
        self.wait_until(lambda: self.store.nodes.states(['proxy1']))
        self.assertFalse(self.placement().synced_generation)
        self.answer()
        self.wait_synced()
        self.assertEqual((None, False), (
            self.placement().error, self.placement().announced))
        state = self.store.nodes.states(['proxy1'])['proxy1']
        self.assertEqual(
            (77, [], {'octavia-xdp-proxy-launcher': None}),
            tuple(state[name] for name in (
                'services_max', 'problems', 'processes')))
        self.assertEqual({'controller': None, 'node': None, 'threads': None},
                         agent._monitoring.health.results())

        before = self.launch()
        self.store.load_balancers.change(ID, lambda document: spec.document(
            ID, tree(connection_limit=7)))
        self.wait_until(lambda: self.launch() != before)
        self.answer(phase='refused', error='[ALERT] no')
        self.wait_until(lambda: self.placement().error)
        self.assertEqual('[ALERT] no', self.placement().error)

        self.store.placements.place(ID, remove=['proxy1'])
        self.wait_until(lambda: not self.launch())
        self.assertEqual(ID, self.placement().load_balancer_id)
        (self.run_directory / 'state' / f'{ID}.json').unlink()
        self.wait_until(lambda: not self.store.placements.select([ID]))

    def test_agent_without_a_broker_stops(self):
        with mock.patch.object(agents_service, 'TALK_ENDS_S', 0.1):
            agent = self.start()
            self.wait_until(lambda: agent._worker.held == {})
            agent.stop()
            self.thread.join(60)
            self.assertFalse(self.thread.is_alive())
