# SPDX-License-Identifier: Apache-2.0
"""Hanging calls count until they end, and limit only their own kind."""

import threading

from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.octavia import limited
from octavia_xdp_provider.tests.unit import base

# Limit of a call that never ends; no test waits for more than two of these.
_TIMEOUT_S = 0.2


class TestLimited(base.TestCase):

    def setUp(self):
        super().setUp()
        self.end = threading.Event()
        self.addCleanup(self.end.set)
        self.begun = []
        self.calls = limited.Limited('what is asked', 2, _TIMEOUT_S)

    def hang(self):
        self.begun.append(1)
        self.end.wait()

    def test_hanging_calls_count_until_they_end(self):
        for _ in range(2):
            self.assertRaises(errors.OctaviaUnavailable,
                              self.calls.call, self.hang)
        self.assertRaises(errors.OctaviaUnavailable,
                          self.calls.call, self.begun.append, 3)
        self.assertEqual([1, 1], self.begun)

    def test_other_calls_are_served_meanwhile(self):
        self.assertRaises(errors.OctaviaUnavailable,
                          self.calls.call, self.hang)
        self.assertEqual(5, self.calls.call(sum, (2, 3)))
