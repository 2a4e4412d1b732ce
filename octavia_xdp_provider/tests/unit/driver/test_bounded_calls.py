# SPDX-License-Identifier: Apache-2.0
"""Calls keep their time limit, and fail at once while the peer is down."""

import threading
from unittest import mock

from octavia_xdp_provider.driver import bounded_calls
from octavia_xdp_provider.tests.unit import base

# Longer than any call of these tests should wait.
FOR_EVER_S = 60


class Failed(Exception):
    """The peer's own error."""


class Peer:
    """Answers pings once ``answers`` is set."""

    def __init__(self):
        self.answers = threading.Event()
        self.pinged = threading.Event()
        self.cancelled = []

    def ping(self):
        self.pinged.set()
        if not self.answers.is_set():
            raise OSError('not there')

    def cancel(self, request):
        self.cancelled.append(request)


class TestBoundedCalls(base.TestCase):

    def setUp(self):
        super().setUp()
        self.peer = Peer()
        self.addCleanup(self.peer.answers.set)
        self.patch_interval(0.01)
        self.calls = bounded_calls.BoundedCalls(self.peer, (Failed,))

    def patch_interval(self, seconds):
        before = bounded_calls.PROBE_INTERVAL_S
        bounded_calls.PROBE_INTERVAL_S = seconds
        self.addCleanup(setattr, bounded_calls, 'PROBE_INTERVAL_S', before)

    def hang(self):
        """Return a function that hangs until the test ends."""
        ended = threading.Event()
        self.addCleanup(ended.set)
        return lambda: ended.wait(FOR_EVER_S)

    def fail(self, error):
        raise error

    def wait_until_back(self):
        prober = self.calls._prober
        if prober:
            prober.join(FOR_EVER_S)

    def test_calls_fail_at_once_while_peer_is_down(self):
        self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                          self.hang(), 0.05)
        called = []
        for _ in range(3):
            self.assertRaises(
                bounded_calls.Unanswered, self.calls.call,
                lambda: called.append(1), FOR_EVER_S)
            self.assertRaises(bounded_calls.Unanswered, self.calls.check)
        self.assertEqual([], called)

    def test_any_library_error_means_peer_is_down(self):
        for error in (OSError('x'), RuntimeError('x'), KeyError('x')):
            calls = bounded_calls.BoundedCalls(self.peer, (Failed,))
            self.assertRaises(bounded_calls.Unanswered, calls.call,
                              lambda error=error: self.fail(error),
                              FOR_EVER_S)
            self.assertRaises(bounded_calls.Unanswered, calls.check)

    def test_error_of_peer_is_an_answer(self):
        self.assertRaises(Failed, self.calls.call,
                          lambda: self.fail(Failed('x')), FOR_EVER_S)
        self.calls.check()
        self.assertFalse(self.peer.pinged.is_set())

    def test_abandoned_request_is_cancelled_before_calls_resume(self):
        self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                          self.hang(), 0.05, 'a request')
        self.assertEqual([], self.peer.cancelled)
        self.peer.answers.set()
        self.wait_until_back()
        self.calls.check()
        self.assertEqual(['a request'], self.peer.cancelled)

    def test_number_of_waiting_calls_is_limited(self):
        before = bounded_calls.CALLS_MAX
        bounded_calls.CALLS_MAX = 1
        self.addCleanup(setattr, bounded_calls, 'CALLS_MAX', before)
        entered = threading.Event()
        leave = threading.Event()

        def wait():
            entered.set()
            leave.wait(FOR_EVER_S)
        first = threading.Thread(
            target=self.calls.call, args=(wait, FOR_EVER_S))
        first.start()
        self.assertTrue(entered.wait(FOR_EVER_S))
        with mock.patch.object(bounded_calls.LOG, 'error') as log:
            for _ in range(3):
                self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                                  lambda: 7, FOR_EVER_S)
        log.assert_called_once()
        leave.set()
        first.join()
        self.assertEqual(7, self.calls.call(lambda: 7, FOR_EVER_S))
