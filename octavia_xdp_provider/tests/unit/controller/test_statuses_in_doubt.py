# SPDX-License-Identifier: Apache-2.0
"""Statuses that Octavia may have without a record of it here."""

import contextlib
from unittest import mock

from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.unit.controller import advancing

DOWN = {'lb': {'m1': 'down', 'm2': 'up'}}


class TestStatusesInDoubt(advancing.AdvanceTestCase):
    """A member goes down and comes up again before the next attempt."""

    def setUp(self):
        super().setUp()
        self.do(advancing.created())
        self.assertEqual('ONLINE', self.octavia.operating('m1'))

    def fails_after(self, method, error):
        """Let a call take effect and then fail for its caller."""
        done = getattr(self.octavia, method)

        def call(message):
            # Octavia keeps rows of deleted objects for a while, and accepts
            # the same again.
            with contextlib.suppress(errors.Rejected):
                done(message)
            raise error
        return mock.patch.object(self.octavia, method, call)

    def comes_back(self):
        self.report()
        self.now += 61
        self.restart()
        self.work()
        self.assertEqual(
            {'ONLINE'}, {self.octavia.operating(key)
                         for key in ('lb', 'listener', 'pool', 'm1')})

    def test_status_without_an_answer_is_sent_again(self):
        self.report(members=DOWN)
        with self.fails_after('set_statuses', errors.OctaviaUnavailable(
                'no answer in time', maybe_done=True)):
            self.assertRaises(errors.OctaviaUnavailable, self.work)
        self.assertEqual('ERROR', self.octavia.operating('m1'))
        self.comes_back()

    def test_deletion_whose_answers_are_all_late_ends(self):
        self.request(advancing.DELETED)
        self.commit(deleted={('loadbalancer', 'lb')})
        self.work()
        self.report()
        late = self.fails_after('set_statuses', errors.OctaviaUnavailable(
            'no answer in time', maybe_done=True))
        with late:
            self.assertRaises(errors.OctaviaUnavailable, self.work)
            self.assertIsNone(self.octavia.tree('lb'))
            self.now += 61
            # A worker does this after a failure.
            item, = self.store.claim('another', 1, 60)
            self.store.finish(item, 'another', 0)
            self.work()
        self.assertIsNone(self.store.load_balancer('lb'))

    def test_status_of_a_dead_controller_is_sent_again(self):
        self.report(members=DOWN)
        with self.fails_after('set_statuses', SystemExit()):
            self.assertRaises(SystemExit, self.work)
        self.assertEqual('ERROR', self.octavia.operating('m1'))
        self.comes_back()
