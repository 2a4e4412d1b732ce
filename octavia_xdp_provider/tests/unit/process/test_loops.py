# SPDX-License-Identifier: Apache-2.0
"""A loop takes steps, repeats, and continues after failures."""

import logging
import threading

import fixtures

from octavia_xdp_provider.process import loops
from octavia_xdp_provider.tests.unit import base

PATIENCE_S = 60
# No step comes by itself.
NEVER_S = 3600


class Moved(Exception):
    """No failure."""


class TestLoop(base.TestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(
            level=logging.INFO, format='%(levelname)s %(message)s'))
        self.errors = []
        self.taken = threading.Semaphore(0)
        self.rounds = 0

    def step(self):
        error = self.errors.pop(0) if self.errors else None
        # With the last one that is wanted.
        if not self.errors:
            self.taken.release()
        if error:
            raise error

    def come_round(self):
        self.rounds += 1

    def start(self, interval_s, step=None, come_round=None):
        loop = loops.Loop(step or self.step, interval_s, 'It failed.',
                          come_round or self.come_round, Moved)
        thread = self.run_in_thread(loop)
        return loop, thread

    def wait(self):
        self.assertTrue(self.taken.acquire(timeout=PATIENCE_S))

    def test_loop_steps_when_woken_until_stopped(self):
        loop, thread = self.start(NEVER_S)
        for _ in range(3):
            self.wait()
            loop.wake()
        self.wait()
        loop.stop()
        thread.join(PATIENCE_S)
        self.assertFalse(thread.is_alive())
        self.assertGreaterEqual(self.rounds, 4)

    def test_failure_that_lasts_is_logged_once(self):
        self.errors = [ValueError('broken')] * 3
        loop, thread = self.start(0.001)
        self.wait()
        self.wait()
        loop.stop()
        thread.join(PATIENCE_S)
        self.assertEqual(1, self.log.output.count('ERROR It failed.'))
        self.errors = [ValueError('again')]
        loop, thread = self.start(NEVER_S)
        self.wait()
        loop.stop()
        thread.join(PATIENCE_S)
        self.assertEqual(2, self.log.output.count('ERROR It failed.'))

    def test_expected_error_is_logged_as_information(self):
        self.errors = [Moved('It is elsewhere')]
        loop, thread = self.start(NEVER_S)
        self.wait()
        loop.stop()
        thread.join(PATIENCE_S)
        self.assertEqual('INFO It is elsewhere.\n', self.log.output)

    def test_step_that_hangs_is_seen(self):
        now, begun, end = [100.0], threading.Event(), threading.Event()
        watched = loops.Loops(10, lambda: now[0])

        def hang():
            begun.set()
            end.wait(PATIENCE_S)
            self.taken.release()
        self.start(NEVER_S, hang, watched.watch('worker'))
        # Before the cleanup that waits for the thread.
        self.addCleanup(end.set)
        self.assertTrue(begun.wait(PATIENCE_S))
        self.assertEqual({}, watched.hanging())
        now[0] += 11
        self.assertEqual({'worker': 11}, watched.hanging())
