# SPDX-License-Identifier: Apache-2.0
"""Threads that process the items of the work queue."""

import threading
import time
from unittest import mock

import fixtures

from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.unit.controller import base

# Seconds after which a test gives up waiting.
LIMIT_S = 60


class TestWorkers(base.StoreTestCase):
    """``done``: ids of the processed load balancers, in order."""

    def setUp(self):
        super().setUp()
        self.done = []
        self.progress = threading.Condition()
        self.useFixture(fixtures.MonkeyPatch(
            'octavia_xdp_provider.controller.workers._BACKOFF_FIRST_S', 0.0))

    def start(self, step, threads=1, lease_s=60.0):
        def noting(item, is_mine):
            try:
                return step(item, is_mine)
            finally:
                with self.progress:
                    self.done.append(item.load_balancer_id)
                    self.progress.notify_all()
        self.waiting = workers.Waiting(2)
        self.workers = workers.Workers(self.store, noting, 'own', threads,
                                       lease_s, waiting=self.waiting)
        self.thread = threading.Thread(target=self.workers.run)
        self.thread.start()
        self.addCleanup(self.stop)

    def stop(self):
        self.workers.stop()
        self.thread.join(LIMIT_S)
        self.assertFalse(self.thread.is_alive())

    def wait(self, condition):
        with self.progress:
            self.assertTrue(self.progress.wait_for(condition, LIMIT_S),
                            self.done)

    def test_failing_item_starves_no_other(self):
        log = self.useFixture(fixtures.FakeLogger())

        def step(item, is_mine):
            if item.load_balancer_id == 'bad':
                raise RuntimeError('it cannot be done')
        self.store.work.mark(['bad'])
        self.store.work.mark(['b', 'c', 'd'])
        self.start(step)
        self.wait(lambda: {'b', 'c', 'd'} <= set(self.done)
                  and self.done.count('bad') > 2)
        self.stop()
        self.assertEqual(
            {'bad'}, self.store.work.marked(['bad', 'b', 'c', 'd']))
        self.assertEqual(1, log.output.count(
            'Load balancer bad: RuntimeError: it cannot be done'))

    def test_item_that_the_step_finished_is_left_alone(self):
        def step(item, is_mine):
            self.store.work.finish(item, item.owner)
            return workers.FINISHED
        self.store.work.mark(['lb'])
        with mock.patch.object(self.store.work, 'finish',
                               wraps=self.store.work.finish) as finish:
            self.start(step)
            self.wait(lambda: self.done == ['lb'])
            self.stop()
        self.assertEqual(1, finish.call_count)

    def test_unavailable_octavia_is_asked_again(self):
        answers = iter((errors.OctaviaUnavailable('not there'),
                        errors.OctaviaUnavailable('not there'), None))
        step = mock.Mock(side_effect=lambda item, is_mine: raised(
            next(answers)))
        self.store.work.mark(['lb'])
        self.start(step)
        self.wait(lambda: len(self.done) == 3)
        self.stop()
        self.assertEqual(set(), self.store.work.marked(['lb']))
        # The number of failures in a row determines the back-off.
        self.assertEqual([0, 1, 2], [
            call.args[0].failures for call in step.mock_calls])

    def test_items_run_in_parallel(self):
        together = threading.Barrier(3)
        self.store.work.mark(['a', 'b', 'c'])
        self.start(lambda item, is_mine: together.wait(LIMIT_S) and None,
                   threads=3)
        self.wait(lambda: len(self.done) == 3)
        self.assertFalse(together.broken)

    def test_long_item_occupies_only_its_own_thread(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def step(item, is_mine):
            if item.load_balancer_id == 'long':
                go_on.wait(LIMIT_S)
        self.store.work.mark(['long'])
        self.start(step, threads=2)
        for key in ('a', 'b', 'c'):
            self.store.work.mark([key])
            self.workers.wake()
        self.wait(lambda: len(self.done) == 3)
        self.assertNotIn('long', self.done)
        go_on.set()
        self.wait(lambda: 'long' in self.done)

    def test_waiting_items_delay_no_other(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def step(item, is_mine):
            if 'slow' in item.load_balancer_id:
                with self.waiting.of(item.load_balancer_id):
                    go_on.wait(LIMIT_S)
        self.store.work.mark(['slow1', 'slow2'])
        self.start(step)
        for key in ('a', 'b', 'c'):
            self.store.work.mark([key])
            self.workers.wake()
        self.wait(lambda: len(self.done) == 3)
        self.assertEqual(['a', 'b', 'c'], sorted(self.done))
        self.assertTrue(self.waiting.is_full)
        self.assertEqual([], self.store.work.claim('other', 5, 60))
        go_on.set()
        self.wait(lambda: len(self.done) == 5)
        self.assertFalse(self.waiting.is_full)

    def test_waiting_item_does_not_count_as_hanging(self):
        go_on, begun = threading.Event(), threading.Event()
        late_s = [0.0]
        clock = time.monotonic
        self.useFixture(fixtures.MonkeyPatch(
            'time.monotonic', lambda: clock() + late_s[0]))

        def step(item, is_mine):
            with self.waiting.of(item.load_balancer_id):
                begun.set()
                go_on.wait(LIMIT_S)
            busy.append(self.workers.busy_s())
        busy = []
        self.store.work.mark(['slow'])
        self.start(step)
        self.assertTrue(begun.wait(LIMIT_S))
        late_s[0] = 1000.0
        busy.append(self.workers.busy_s())
        go_on.set()
        self.wait(lambda: self.done)
        self.assertLess(max(busy), 500.0)

    def test_requested_item_is_processed_before_its_time(self):
        self.start(lambda item, is_mine: None)
        self.store.work.mark(['named', 'other'], 600)
        self.workers.wake(ids=['named', 'unknown'])
        self.wait(lambda: self.done)
        self.stop()
        self.assertEqual(['named'], self.done)
        self.assertEqual({'other'}, self.store.work.marked(['named', 'other']))

    def test_item_due_later_is_not_processed_again(self):
        self.store.work.mark(['a', 'b'], 600)
        claim = mock.Mock(side_effect=self.store.work.claim)
        self.useFixture(fixtures.MockPatchObject(
            self.store.work, 'claim', claim))
        self.start(lambda item, is_mine: None)
        self.workers.wake(0.2, ['a', 'b'])
        self.workers.wake(ids=['a'])
        self.wait(lambda: len(self.done) == 2)
        self.stop()
        self.assertEqual([['a'], ['b']], [
            call.args[3] for call in claim.mock_calls
            if len(call.args) > 3])

    def test_mark_during_processing_is_not_lost(self):
        def step(item, is_mine):
            if not self.done:
                self.store.work.mark(['lb'])
        self.store.work.mark(['lb'])
        self.start(step)
        self.wait(lambda: len(self.done) == 2)
        self.stop()
        self.assertEqual(set(), self.store.work.marked(['lb']))

    def test_item_taken_over_by_another_is_not_finished(self):
        """The worker pauses for longer than its claim lasts."""
        claimed, paused_s = [], [0.0]

        def step(item, is_mine):
            claimed.append(is_mine())
            paused_s[0] = 61.0
            other, = self.store.work.claim('other', 1, 60)
            claimed.append(is_mine())
            self.assertEqual(item.load_balancer_id, other.load_balancer_id)

        # A clock that is set back must not make claims expire.
        for clock in (time.time, time.monotonic):
            self.useFixture(fixtures.MonkeyPatch(
                f'time.{clock.__name__}',
                lambda clock=clock: clock() + paused_s[0]))
        self.store.work.mark(['lb'])
        self.start(step)
        self.wait(lambda: self.done)
        self.stop()
        self.assertEqual([True, False], claimed)
        self.assertTrue(self.store.work.is_claimed_by('other', 'lb'))

    def test_dead_controllers_claims_are_taken_over_when_they_expire(self):
        now = [1e6]
        with mock.patch('time.time', side_effect=lambda: now[0]):
            self.store.work.mark(['lb'])
            self.assertEqual(1, len(self.store.work.claim('dead', 1, 10)))
            now[0] += 9.9
            self.assertEqual([], self.store.work.claim('other', 1, 10))
            now[0] += 0.2
            self.start(lambda item, is_mine: None)
            self.wait(lambda: self.done == ['lb'])
            self.stop()

    def test_renewed_claim_does_not_expire(self):
        now = [1e6]
        with mock.patch('time.time', side_effect=lambda: now[0]):
            self.store.work.mark(['lb'])
            item, = self.store.work.claim('own', 1, 10)
            now[0] += 9
            self.store.work.renew('own', ['lb'], 10)
            now[0] += 9
            self.assertEqual([], self.store.work.claim('other', 1, 10))
            self.assertTrue(self.store.work.is_claimed_by('own', 'lb'))
            now[0] += 2
            self.assertFalse(self.store.work.is_claimed_by('own', 'lb'))
            other, = self.store.work.claim('other', 1, 10)
            # A late renewal or end does not take it from the other.
            self.store.work.renew('own', ['lb'], 10)
            self.assertTrue(self.store.work.finish(item, 'own'),
                            'there is nothing to come back for')
            self.assertTrue(self.store.work.is_claimed_by('other', 'lb'))
            self.store.work.finish(other, 'other')
            self.assertEqual(set(), self.store.work.marked(['lb']))


def raised(error):
    if error is not None:
        raise error
