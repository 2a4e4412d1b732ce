# SPDX-License-Identifier: Apache-2.0
"""Signs of life are noted for all nodes at once."""

import threading
from unittest import mock

from octavia_xdp_provider.controller import heartbeats
from octavia_xdp_provider.tests.unit.controller import base

LIMIT_S = 60


class TestHeartbeats(base.StoreTestCase):

    def test_all_that_were_heard_are_noted_at_once_and_once(self):
        store = mock.Mock()
        beats = heartbeats.Heartbeats(store)
        for host in ('b', 'a', 'b'):
            beats.heard(host)
        beats.note()
        beats.note()
        store.heartbeat.assert_called_once_with('a', 'b')

    def test_nodes_that_were_not_heard_stay_as_they_are(self):
        for host in ('a', 'b', 'new'):
            self.store.register_node(host)
        for host in ('a', 'b'):
            self.store.seen(host, {})
        before = self.heard()
        with mock.patch('time.time', return_value=9e9):
            self.assertEqual(1, self.store.heartbeat('a', 'new'))
        after = self.heard()
        self.assertEqual((9e9, before['b'], 0),
                         tuple(after[host] for host in ('a', 'b', 'new')))

    def heard(self):
        return {node.host: node.last_seen for node in self.store.nodes()}

    def test_goes_on_after_an_error(self):
        log = self.useFixture(base.fixtures.FakeLogger())
        noted = threading.Event()
        store = mock.Mock()

        def heartbeat(*hosts):
            if len(store.mock_calls) < 3:
                beats.heard('a')
                raise OSError('the database is away')
            noted.set()
        store.heartbeat.side_effect = heartbeat
        with mock.patch.object(heartbeats, 'INTERVAL_S', 0.001):
            beats = heartbeats.Heartbeats(store)
            beats.heard('a')
            thread = threading.Thread(target=beats.run)
            thread.start()
            self.assertTrue(noted.wait(LIMIT_S))
            beats.stop()
            thread.join()
        self.assertEqual(1, log.output.count('cannot be stored'))
