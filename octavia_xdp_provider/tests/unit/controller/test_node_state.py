# SPDX-License-Identifier: Apache-2.0
"""Relevant changes of a node's state have its load balancers looked at."""

import threading
from unittest import mock

from octavia_xdp_provider.controller import heartbeats
from octavia_xdp_provider.tests.unit.controller import base
from octavia_xdp_provider.tests.unit.controller import reporting

# A node that lacks nothing.
GOOD = {'version': '1', 'problems': [], 'bgp_established': [2, 2],
        'uplinks_ready': [4, 6], 'health_checker': {'probes': 1}}
BAD = ({'problems': ['the speaker does not run']}, {'bgp_established': [1, 2]},
       {'uplinks_ready': []}, {'health_checker': None},
       {'processes': {'octavia-xdp-result-handler': 'stands still'}},
       {'processes': {'octavia-xdp-exabgp': 'does not run'}})


class TestNodeState(reporting.NodeApiTestCase):

    def setUp(self):
        super().setUp()
        # Also one that is leaving, which has no statuses there any more.
        self.store.placements.place('other', add=['a'])
        self.store.placements.place('other', remove=['a'])
        self.seq = 0
        self.report()
        self.finish_all()

    def report(self, **more):
        self.seq += 1
        self.take(1, self.seq, as_of=0, state=dict(GOOD, **more))

    def finish_all(self):
        """Finish all due work. Returns the ids of its load balancers."""
        self.touched.clear()
        items = self.store.work.claim('test', 100, 60)
        for item in items:
            self.store.work.finish(item, 'test')
        return {item.load_balancer_id for item in items}

    def test_new_or_solved_problem_is_work(self):
        for bad in BAD:
            self.report(**bad)
            self.assertEqual({'lb'}, self.finish_all(), bad)
            self.report()
            self.assertEqual({'lb'}, self.finish_all(), bad)

    def test_workers_are_woken(self):
        self.report(bgp_established=[0, 2])
        self.assertEqual(1, len(self.touched))

    def test_unknown_health_is_work_besides_a_problem(self):
        self.report(bgp_established=[1, 2])
        self.finish_all()
        self.report(bgp_established=[1, 2], health_checker=None)
        self.assertEqual({'lb'}, self.finish_all())
        self.report(bgp_established=[1, 2])
        self.finish_all()
        self.report(bgp_established=[1, 2], processes={
            'octavia-xdp-result-handler': 'stands still'})
        self.assertEqual({'lb'}, self.finish_all())

    def test_report_without_effect_on_statuses_is_no_work(self):
        self.report(bgp_established=[1, 2])
        self.finish_all()
        for state in ({'bgp_established': [0, 2]},
                      {'bgp_established': [0, 2], 'problems': ['one']},
                      {'bgp_established': [0, 2], 'problems': ['other']},
                      {'uplinks_ready': [], 'services': 7},
                      {'uplinks_ready': [], 'health_checker': {'probes': 9}}):
            self.report(**state)
            self.assertEqual([], self.touched, state)
            self.assertEqual(set(), self.finish_all(), state)

    def test_report_without_a_state_is_no_work(self):
        self.report(bgp_established=[1, 2])
        self.finish_all()
        self.seq += 1
        self.take(1, self.seq, as_of=0)
        self.assertEqual(set(), self.finish_all())


LIMIT_S = 60


class TestHeartbeats(base.StoreTestCase):
    """Heartbeats of all nodes are stored in batches."""

    def test_heartbeats_are_stored_once_and_together(self):
        store = mock.Mock()
        beats = heartbeats.Heartbeats(store)
        for host in ('b', 'a', 'b'):
            beats.note_alive(host)
        beats.store()
        beats.store()
        store.nodes.heartbeat.assert_called_once_with('a', 'b')

    def test_heartbeats_are_stored_after_an_error(self):
        log = self.useFixture(base.fixtures.FakeLogger())
        noted = threading.Event()
        store = mock.Mock()

        def heartbeat(*hosts):
            if len(store.mock_calls) < 3:
                beats.note_alive('a')
                raise OSError('the database is away')
            noted.set()
        store.nodes.heartbeat.side_effect = heartbeat
        with mock.patch.object(heartbeats, 'INTERVAL_S', 0.001):
            beats = heartbeats.Heartbeats(store)
            beats.note_alive('a')
            thread = threading.Thread(target=beats.run)
            thread.start()
            self.assertTrue(noted.wait(LIMIT_S))
            beats.stop()
            thread.join()
        self.assertEqual(1, log.output.count('Failed to store heartbeats'))
