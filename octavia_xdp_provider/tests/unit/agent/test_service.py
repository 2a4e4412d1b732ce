# SPDX-License-Identifier: Apache-2.0
"""The agent's parts, wired together, with a controller over RPC."""

import threading
from unittest import mock

import fixtures

from octavia_xdp_provider.agent import service
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import service as agent_threads
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import reporting


class FakeNode(reconciling.FakeDatapath):
    """The part of the datapath that an agent uses."""

    def __init__(self):
        super().__init__([])
        self.library = mock.Mock()

    def info(self):
        return datapath.Info(1, 16, 64, 1, 1, len(self.held), 0, 1)

    @staticmethod
    def outcomes():
        return {}

    @staticmethod
    def remove_probes():
        return False


class TestAgent(store_base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.node = FakeNode()
        self.useFixture(fixtures.MockPatch(
            'octavia_xdp_provider.node.run_directory.RunDirectory.'
            'open_datapath', return_value=self.node))
        for name in ('netlink', 'monitor'):
            self.useFixture(fixtures.MockPatchObject(service, name))
        service.monitor.UplinkMonitor.return_value = mock.Mock(
            ready=frozenset({4, 6}), lost=frozenset(), families={},
            **{'report.return_value': {}})
        service.netlink.Kernel.return_value = mock.Mock(**{
            'own_addresses.return_value': (),
            'route_mtus.return_value': {}})

    def serve(self, endpoint):
        """A controller; its transport is the process itself."""
        conf = self.load('[DEFAULT]\ntransport_url = fake://\n')
        server = rpc.server(
            rpc.transport(conf), rpc.CONTROLLER_TOPIC, 'controller',
            [endpoint(self.store, lambda *_: None, lambda: None)])
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)

    def start(self, more=''):
        agent = service.Agent(self.load(
            '[DEFAULT]\nhost = node\ntransport_url = fake://\n'
            '[vip]\nallowed_networks = 203.0.113.0/24\n'
            f'[agent]\nrun_directory = {self.directory}\n'
            f'{more}'))
        thread = self.run_in_thread(agent)
        self.agents = [(agent, thread)]

    def wait_until_reported(self):
        def placement():
            placed, = (placement for placement
                       in self.store.placements.select(['lb'])
                       if placement.host == 'node')
            return placed
        self.wait_until(lambda: placement().synced_generation)
        return placement()

    def test_agent_applies_wanted_state_and_reports_it(self):
        self.serve(node_api.NodesEndpoint)
        self.store.load_balancers.create(base.document())
        self.store.nodes.register('node')
        self.store.placements.place('lb', add=['node'])
        self.start()
        placement = self.wait_until_reported()
        self.assertEqual((None, {'m1': 'unknown', 'm2': 'unknown'}, False), (
            placement.error, placement.members, placement.announced))
        self.assertEqual([reconciling.KEY], list(self.node.held))

    def remember(self):
        """Another node has reported a change of the load balancer's pool."""
        self.store.load_balancers.create(base.document())
        for host in ('node', 'other'):
            self.store.nodes.register(host)
        self.store.placements.place('lb', add=['other'])
        node_api.NodesEndpoint(
            self.store, lambda *_: None, lambda: None).report(
                {}, 'other', 1, 1, reporting.report(clock=50000, held={
                    'lb': {**reporting.held(9), 'history': {'pool': [
                        {'members': {'m2': 0}, 'slots': 1021,
                         'at': 40000}]}}}))

    def assertHasHistory(self):
        self.wait_until(lambda: self.node.histories)
        key, ((age, slots, members),) = self.node.histories[0]
        self.assertEqual((reconciling.KEY, 1021, {
            datapath.MemberName('198.18.10.12'): 0}), (key, slots, members))
        self.assertLessEqual(10000, age)

    def test_node_without_state_gets_the_history_of_others(self):
        self.remember()
        self.store.placements.place('lb', add=['node'])
        self.serve(node_api.NodesEndpoint)
        self.start()
        self.assertHasHistory()

    def test_node_in_use_asks_about_new_placements(self):
        asked = []

        class Asked(node_api.NodesEndpoint):
            def history(self, context, host, after=None, ids=None):
                asked.append(ids)
                return super().history(context, host, after, ids)

        self.node.set_services({reconciling.KEY: (None, ())})
        self.remember()
        self.serve(Asked)
        self.start('report_interval = 1\n')
        agent = self.agents[-1][0]
        self.wait_until(lambda: agent._link.wanted is not None)
        self.store.placements.place('lb', add=['node'])
        self.assertHasHistory()
        self.wait_until_reported()
        self.assertEqual([['lb']], asked)

    def test_agent_without_a_broker_applies_its_cache_and_stops(self):
        """Each call to the broker blocks for ever."""
        end = threading.Event()
        hangs = mock.Mock(side_effect=lambda *args, **kwargs: end.wait())
        document = base.document()
        document['pools']['pool']['healthmonitor'] = None
        cache = wanted.Cache(f'{self.directory}/wanted')
        cache.save(wanted.Wanted(5, {'lb': (3, document)}), {'lb'})
        with mock.patch.object(rpc, 'server') as server, \
                mock.patch.object(rpc.NodesClient, 'fetch', hangs), \
                mock.patch.object(rpc.NodesClient, 'history', hangs), \
                mock.patch.object(rpc.HeartbeatClient, 'heartbeat', hangs), \
                mock.patch.object(agent_threads, 'TALK_ENDS_S', 0.1):
            server.return_value.start = hangs
            self.start()
            # Before the thread is waited for.
            self.addCleanup(end.set)
            self.wait_until(
                lambda: list(self.node.held) == [reconciling.KEY])
            agent, thread = self.agents[-1]
            agent.stop()
            thread.join(60)
            self.assertFalse(thread.is_alive())
            server.return_value.stop.assert_not_called()
