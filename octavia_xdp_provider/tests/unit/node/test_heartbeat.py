# SPDX-License-Identifier: Apache-2.0
"""Signs of life of a node's processes."""

import os
import time
from unittest import mock

from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.tests.unit import base


class TestHeartbeat(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = self.create_tempfiles(
            [('x', '')])[0].rpartition('/')[0] + '/handler.alive'
        self.now = 1000.0
        for name, clock in (('monotonic', lambda: self.now),
                            ('monotonic_ns', lambda: int(self.now * 1e9))):
            self.enterContext(mock.patch.object(time, name, clock))

    def test_process_stands_still_once_it_shows_no_sign_for_long(self):
        heartbeat.Heartbeat(self.path).beat()
        self.assertEqual(0.0, heartbeat.age_s(self.path))
        self.now += heartbeat.SILENCE_MAX_S
        self.assertFalse(heartbeat.stands_still(self.path, 0.0))
        self.now += 0.1
        self.assertTrue(heartbeat.stands_still(self.path, 0.0))
        heartbeat.Heartbeat(self.path).beat()
        self.assertFalse(heartbeat.stands_still(self.path, 0.0))

    def test_silence_counts_from_when_somebody_looks(self):
        begun = self.now
        self.assertIsNone(heartbeat.age_s(self.path))
        self.assertFalse(heartbeat.stands_still(self.path, begun))
        self.now += heartbeat.SILENCE_MAX_S + 1
        self.assertTrue(heartbeat.stands_still(self.path, begun))

    def test_link_is_not_followed(self):
        other = f'{self.path}-other'
        with open(other, 'w'):
            pass
        before = os.stat(other).st_mtime_ns
        os.symlink(other, self.path)
        heartbeat.Heartbeat(self.path).beat()
        self.assertEqual(before, os.stat(other).st_mtime_ns)
