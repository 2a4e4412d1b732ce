# SPDX-License-Identifier: Apache-2.0
"""Statuses that are sent to Octavia while one load balancer is advanced."""

import contextlib
import dataclasses
from unittest import mock

from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.scheduler import liveness
from octavia_xdp_provider.tests.unit.controller import advancing
from octavia_xdp_provider.tests.unit.controller import requesting


class TestStatuses(advancing.AdvanceTestCase):

    def setUp(self):
        super().setUp()
        self.request(requesting.created())
        self.commit()
        self.work()

    def test_load_balancer_is_active_once_all_live_nodes_have_confirmed(self):
        self.report('a')
        self.work()
        self.assertIsNone(self.provisioning())
        self.report('b')
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_silent_node_is_not_waited_for(self):
        self.report('a')
        self.set_conditions(b='silent')
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_slow_node_is_waited_for_until_the_time_out(self):
        self.report('a')
        self.work()
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_change_that_no_node_applied_can_be_followed_by_another(self):
        self.report(error='a map is full')
        self.work()
        self.assertIsNone(self.provisioning())
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.assertEqual(('ACTIVE', 'ERROR'), (
            self.provisioning(), self.octavia.operating('lb')))
        sent = len(self.octavia.messages)
        self.report(error='a map is full')
        self.store.work.mark(['lb'])
        self.work()
        self.assertEqual(sent, len(self.octavia.messages), 'sent again')
        # The tenant corrects the change.
        self.request(requesting.member('delete', 'm1'))
        self.commit(advancing.PATH, {('member', 'm1')})
        self.work()
        self.report()
        self.work()
        self.assertEqual(('ACTIVE', 'ONLINE'), (
            self.provisioning(), self.octavia.operating('lb')))
        self.assertEqual('DELETED', self.provisioning('m1'))

    def test_only_pending_objects_become_active(self):
        self.report()
        self.work()
        sent = len(self.octavia.messages)
        touched = {*advancing.PATH, ('member', 'm1')}
        self.do(requesting.member('update', 'm1', fields={'weight': 2}),
                touched)
        self.assertEqual(
            {(kind, key): {'id': key, 'provisioning_status': 'ACTIVE'}
             for kind, key in touched}, self.octavia.sent_since(sent))

    def test_nothing_is_sent_while_nothing_changes(self):
        self.report()
        self.work()
        sent = len(self.octavia.messages)
        for _ in range(3):
            self.restart()
            self.report()
            self.store.work.mark(['lb'])
            self.now += 600
            self.work()
        self.assertEqual(sent, len(self.octavia.messages))

    def test_change_of_health_is_sent_once_and_alone(self):
        self.report()
        self.work()
        sent = len(self.octavia.messages)
        for _ in range(2):
            self.report(members={'lb': {'m1': 'down', 'm2': 'up'}})
            self.work()
        self.assertEqual(sent + 1, len(self.octavia.messages))
        self.assertEqual({'m1': 'ERROR', 'pool': 'DEGRADED',
                          'listener': 'DEGRADED', 'lb': 'DEGRADED'},
                         {key: record['operating_status'] for (_, key), record
                          in self.octavia.sent_since(sent).items()})

    def test_removed_member_is_deleted_once_nodes_have_removed_it(self):
        self.report()
        self.work()
        self.request(requesting.member('delete', 'm1'))
        self.commit(advancing.PATH, {('member', 'm1')})
        self.work()
        self.report('a')
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertNotEqual('DELETED', self.provisioning('m1'))
        self.report('b')
        self.work()
        self.assertEqual('DELETED', self.provisioning('m1'))
        self.assertEqual((), self.store.load_balancers.get('lb').removed)

    def test_lost_item_sends_nothing(self):
        self.report()
        item, = self.store.work.claim('test', 1, 60)
        self.advance.step(item, lambda: False)
        self.assertEqual({}, self.octavia.statuses)

    def test_item_leaves_the_queue_with_the_last_statuses(self):
        self.report()
        item, = self.store.work.claim('test', 1, 60)
        self.assertIs(workers.FINISHED,
                      self.advance.step(item, lambda: True))
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual(set(), self.store.work.marked(['lb']))
        # Nothing is sent, and so nothing is stored.
        self.store.work.mark(['lb'])
        item, = self.store.work.claim('test', 1, 60)
        self.assertIsNone(self.advance.step(item, lambda: True))

    def test_item_stays_if_it_was_marked_or_taken_over(self):
        self.report()
        item, = self.store.work.claim('test', 1, 60)
        self.store.work.mark(['lb'])
        self.assertIsNone(self.advance.step(item, lambda: True))
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual({'lb'}, self.store.work.marked(['lb']))
        self.assertFalse(self.store.sent_statuses.note('lb', 1, item=item))
        other = dataclasses.replace(item, owner='another',
                                    version=item.version + 1)
        self.assertFalse(self.store.sent_statuses.note('lb', 1, item=other))
        self.assertEqual({'lb'}, self.store.work.marked(['lb']))

    def test_item_stays_if_another_step_is_due(self):
        self.report('a')
        self.now += self.conf.controller.status_timeout + 1
        item, = self.store.work.claim('test', 1, 60)
        self.assertIsNone(self.advance.step(item, lambda: True))
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual({'lb'}, self.store.work.marked(['lb']))

    def test_error_without_a_live_node_ends_with_its_return(self):
        self.report()
        self.work()
        self.set_conditions(a='dead', b='dead')
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.assertEqual('ERROR', self.octavia.operating('lb'))
        self.set_conditions(a='live', b='live')
        self.work()
        self.assertEqual('ONLINE', self.octavia.operating('lb'))


DOWN = {'lb': {'m1': 'down', 'm2': 'up'}}


class TestStatusesInDoubt(advancing.AdvanceTestCase):
    """A member goes down and comes up again before the next attempt."""

    def setUp(self):
        super().setUp()
        self.do(requesting.created())
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
        self.request(requesting.deleted())
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
            item, = self.store.work.claim('another', 1, 60)
            self.store.work.finish(item, 'another', 0)
            self.work()
        self.assertIsNone(self.store.load_balancers.get('lb'))

    def test_status_of_a_dead_controller_is_sent_again(self):
        self.report(members=DOWN)
        with self.fails_after('set_statuses', SystemExit()):
            self.assertRaises(SystemExit, self.work)
        self.assertEqual('ERROR', self.octavia.operating('m1'))
        self.comes_back()


BACK_S = 7200


class TestClockSetBack(advancing.AdvanceTestCase):
    """Nothing waits as long as the database's clock was set back by."""

    def claimed(self, owner):
        return [item.load_balancer_id
                for item in self.store.work.claim(owner, 9, 10)]

    def test_dead_controllers_items_are_taken_over(self):
        self.store.work.mark(['lb'])
        self.assertEqual(['lb'], self.claimed('dead'))
        self.assertEqual([], self.claimed('own'))
        self.now -= BACK_S
        self.assertEqual(['lb'], self.claimed('own'))
        self.assertEqual([], self.claimed('another'))

    def test_items_due_later_are_processed(self):
        self.store.work.mark(['lb'])
        item, = self.store.work.claim('own', 1, 10)
        self.store.work.finish(item, 'own', 60)
        self.assertEqual([], self.claimed('own'))
        self.now -= BACK_S
        self.assertEqual(['lb'], self.claimed('own'))

    def test_dead_leaders_lease_ends(self):
        first = self.store.leases.acquire('lease', 'dead', 10)
        self.assertIsNone(self.store.leases.acquire('lease', 'own', 10))
        self.now -= BACK_S
        self.assertEqual(first + 1, self.store.leases.acquire('lease', 'own',
                                                              10))
        self.assertIsNone(self.store.leases.acquire('lease', 'another', 10))

    def test_node_that_died_before_is_noticed(self):
        watched = liveness.Liveness(7.5, 60)
        for now in (100_000, 100_005):
            watched.observe(now, [now])
        begin = 100_005 - BACK_S
        silence = []
        for passed in range(0, 40, 5):
            watched.observe(begin + passed, [100_005, begin + passed])
            silence.append(watched.silence_s(begin + passed, 100_005))
            self.assertEqual(0, watched.silence_s(
                begin + passed, begin + passed))
        # Silence counts from the other node's first report.
        self.assertEqual([0, *range(0, 35, 5)], silence)

    def test_failing_change_does_not_stay_pending(self):
        self.request(requesting.created())
        self.commit()
        self.work()
        self.now -= BACK_S
        self.report(error='a map is full')
        self.work()
        self.assertEqual(('ACTIVE', 'ERROR'), (
            self.provisioning(), self.octavia.operating('lb')))

    def test_rolled_back_change_is_dropped_within_minutes(self):
        self.do(requesting.created())
        self.request(requesting.member('update', 'm1', fields={'weight': 9}))
        self.work()
        self.now -= BACK_S
        for _ in range(40):
            self.work()
            self.now += 5
        self.assertIsNone(self.store.load_balancers.get('lb').pending)
