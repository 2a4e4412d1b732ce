# SPDX-License-Identifier: Apache-2.0
"""Calls end in time, and nobody waits for what is known to be away."""

import threading

from octavia_xdp_provider.driver import bounded_calls
from octavia_xdp_provider.tests.unit import base

# What no call here is meant to wait for; a test that does is seen to hang.
FOR_EVER_S = 60


class Failed(Exception):
    """The peer's own error."""


class Peer:
    """Answers in the background once it may."""

    def __init__(self):
        self.answers = threading.Event()
        self.asked = threading.Event()
        self.canceled = []

    def ping(self):
        self.asked.set()
        if not self.answers.is_set():
            raise OSError('not there')

    def cancel(self, request):
        self.canceled.append(request)


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
        """A function that hangs until the test ends."""
        ended = threading.Event()
        self.addCleanup(ended.set)
        return lambda: ended.wait(FOR_EVER_S)

    def fail(self, error):
        raise error

    def wait_until_back(self):
        prober = self.calls._prober
        if prober:
            prober.join(FOR_EVER_S)

    def test_answers_are_handed_on(self):
        self.assertEqual(7, self.calls.call(lambda: 7, FOR_EVER_S))

    def test_a_call_that_hangs_ends(self):
        self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                          self.hang(), 0.05)

    def test_calls_fail_at_once_while_nobody_answers(self):
        self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                          self.hang(), 0.05)
        called = []
        for _ in range(3):
            self.assertRaises(
                bounded_calls.Unanswered, self.calls.call,
                lambda: called.append(1), FOR_EVER_S)
            self.assertRaises(bounded_calls.Unanswered, self.calls.check)
        self.assertEqual([], called)

    def test_whatever_a_library_raises_says_that_nobody_answers(self):
        for error in (OSError('x'), RuntimeError('x'), KeyError('x')):
            calls = bounded_calls.BoundedCalls(self.peer, (Failed,))
            self.assertRaises(bounded_calls.Unanswered, calls.call,
                              lambda error=error: self.fail(error),
                              FOR_EVER_S)
            self.assertRaises(bounded_calls.Unanswered, calls.check)

    def test_an_error_of_the_peer_is_its_answer(self):
        self.assertRaises(Failed, self.calls.call,
                          lambda: self.fail(Failed('x')), FOR_EVER_S)
        self.calls.check()
        self.assertFalse(self.peer.asked.is_set())

    def test_calls_go_again_once_the_peer_answers(self):
        self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                          self.hang(), 0.05)
        self.assertTrue(self.peer.asked.wait(FOR_EVER_S))
        self.peer.answers.set()
        self.wait_until_back()
        self.assertEqual(7, self.calls.call(lambda: 7, FOR_EVER_S))

    def test_it_can_be_away_more_than_once(self):
        for _ in range(3):
            self.peer.answers.clear()
            self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                              self.hang(), 0.05)
            self.peer.answers.set()
            self.wait_until_back()
            self.calls.check()

    def test_what_was_given_up_is_called_off_before_anything_else(self):
        self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                          self.hang(), 0.05, 'a request')
        self.assertEqual([], self.peer.canceled)
        self.peer.answers.set()
        self.wait_until_back()
        self.calls.check()
        self.assertEqual(['a request'], self.peer.canceled)

    def test_calls_that_wait_have_a_limit(self):
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
        self.assertRaises(bounded_calls.Unanswered, self.calls.call,
                          lambda: 7, FOR_EVER_S)
        leave.set()
        first.join()
        self.assertEqual(7, self.calls.call(lambda: 7, FOR_EVER_S))
