# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of all nodes are stored in batches."""

import threading
from unittest import mock

from octavia_xdp_provider.controller import heartbeats
from octavia_xdp_provider.tests.unit.controller import base

LIMIT_S = 60


class TestHeartbeats(base.StoreTestCase):

    def test_heartbeats_are_stored_once_and_together(self):
        store = mock.Mock()
        beats = heartbeats.Heartbeats(store)
        for host in ('b', 'a', 'b'):
            beats.note_alive(host)
        beats.store()
        beats.store()
        store.heartbeat.assert_called_once_with('a', 'b')

    def test_nodes_without_heartbeat_stay_unchanged(self):
        for host in ('a', 'b', 'new'):
            self.store.register_node(host)
        for host in ('a', 'b'):
            self.seen(host, {})
        before = self.heard()
        with mock.patch('time.time', return_value=9e9):
            self.assertEqual(1, self.store.heartbeat('a', 'new'))
        after = self.heard()
        self.assertEqual((9e9, before['b'], 0),
                         tuple(after[host] for host in ('a', 'b', 'new')))

    def heard(self):
        return {node.host: node.last_seen for node in self.store.nodes()}

    def test_heartbeats_are_stored_after_an_error(self):
        log = self.useFixture(base.fixtures.FakeLogger())
        noted = threading.Event()
        store = mock.Mock()

        def heartbeat(*hosts):
            if len(store.mock_calls) < 3:
                beats.note_alive('a')
                raise OSError('the database is away')
            noted.set()
        store.heartbeat.side_effect = heartbeat
        with mock.patch.object(heartbeats, 'INTERVAL_S', 0.001):
            beats = heartbeats.Heartbeats(store)
            beats.note_alive('a')
            thread = threading.Thread(target=beats.run)
            thread.start()
            self.assertTrue(noted.wait(LIMIT_S))
            beats.stop()
            thread.join()
        self.assertEqual(1, log.output.count('Failed to store heartbeats'))
