# SPDX-License-Identifier: Apache-2.0
"""Statuses that are sent to Octavia while one load balancer is advanced."""

import dataclasses

from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.tests.unit.controller import advancing


class TestStatuses(advancing.AdvanceTestCase):

    def setUp(self):
        super().setUp()
        self.request(advancing.created())
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
        self.store.mark(['lb'])
        self.work()
        self.assertEqual(sent, len(self.octavia.messages), 'sent again')
        # The tenant corrects the change.
        self.request(advancing.member('delete', 'm1'))
        self.commit(advancing.PATH, {('member', 'm1')})
        self.work()
        self.report()
        self.work()
        self.assertEqual(('ACTIVE', 'ONLINE'), (
            self.provisioning(), self.octavia.operating('lb')))
        self.assertEqual('DELETED', self.provisioning('m1'))

    def test_failing_node_degrades_the_load_balancer(self):
        self.report('a')
        self.report('b', error='map full')
        self.work()
        self.assertEqual(('ACTIVE', 'DEGRADED'), (
            self.provisioning(), self.octavia.operating('lb')))

    def test_only_pending_objects_become_active(self):
        self.report()
        self.work()
        sent = len(self.octavia.messages)
        touched = {*advancing.PATH, ('member', 'm1')}
        self.do(advancing.member('update', 'm1', fields={'weight': 2}),
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
            self.store.mark(['lb'])
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
        self.request(advancing.member('delete', 'm1'))
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
        self.assertEqual((), self.store.load_balancer('lb').removed)

    def test_lost_item_sends_nothing(self):
        self.report()
        item, = self.store.claim('test', 1, 60)
        self.advance.step(item, lambda: False)
        self.assertEqual({}, self.octavia.statuses)

    def test_item_leaves_the_queue_with_the_last_statuses(self):
        self.report()
        item, = self.store.claim('test', 1, 60)
        self.assertIs(workers.FINISHED,
                      self.advance.step(item, lambda: True))
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual(set(), self.store.marked(['lb']))
        # Nothing is sent, and so nothing is stored.
        self.store.mark(['lb'])
        item, = self.store.claim('test', 1, 60)
        self.assertIsNone(self.advance.step(item, lambda: True))

    def test_item_stays_if_it_was_marked_or_taken_over(self):
        self.report()
        item, = self.store.claim('test', 1, 60)
        self.store.mark(['lb'])
        self.assertIsNone(self.advance.step(item, lambda: True))
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual({'lb'}, self.store.marked(['lb']))
        self.assertFalse(self.store.note_sent('lb', 1, item=item))
        other = dataclasses.replace(item, owner='another',
                                    version=item.version + 1)
        self.assertFalse(self.store.note_sent('lb', 1, item=other))
        self.assertEqual({'lb'}, self.store.marked(['lb']))

    def test_item_stays_if_another_step_is_due(self):
        self.report('a')
        self.now += self.conf.controller.status_timeout + 1
        item, = self.store.claim('test', 1, 60)
        self.assertIsNone(self.advance.step(item, lambda: True))
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual({'lb'}, self.store.marked(['lb']))

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
