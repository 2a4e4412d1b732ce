# SPDX-License-Identifier: Apache-2.0
"""A connection is asked now and then whether its server is there."""

import types
from unittest import mock

from octavia_xdp_provider.controller.store import pool
from octavia_xdp_provider.tests.unit import base


class Connection:
    """Of a driver."""


class TestPool(base.TestCase):

    def setUp(self):
        super().setUp()
        clock = mock.patch.object(pool.time, 'monotonic')
        self.clock = clock.start()
        self.addCleanup(clock.stop)
        self.clock.return_value = 0.5
        self.ask = mock.Mock(return_value=True)
        engine = types.SimpleNamespace(
            dialect=types.SimpleNamespace(do_ping=self.ask))
        pool.prepare(engine)
        self.ping = engine.dialect.do_ping

    def test_each_connection_is_asked_once_in_a_while(self):
        one, other = Connection(), Connection()
        for _ in range(3):
            self.assertTrue(self.ping(one))
        self.ask.assert_called_once_with(one)
        self.assertTrue(self.ping(other))
        self.assertEqual(2, self.ask.call_count)
        self.clock.return_value += pool.ASKED_S
        self.assertTrue(self.ping(one))
        self.assertEqual(3, self.ask.call_count)

    def test_no_answer_is_not_remembered(self):
        one = Connection()
        self.ask.side_effect = ConnectionError
        for _ in range(2):
            self.assertRaises(ConnectionError, self.ping, one)
        self.assertEqual(2, self.ask.call_count)
