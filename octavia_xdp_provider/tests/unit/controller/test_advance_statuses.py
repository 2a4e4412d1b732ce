# SPDX-License-Identifier: Apache-2.0
"""Which statuses Octavia is sent while one load balancer is taken on."""

import dataclasses

from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.tests.unit.controller import advancing


class TestStatuses(advancing.AdvanceTestCase):

    def setUp(self):
        super().setUp()
        self.request(advancing.created())
        self.commit()
        self.work()

    def test_active_when_all_live_nodes_have_confirmed(self):
        self.report('a')
        self.work()
        self.assertIsNone(self.provisioning())
        self.report('b')
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_a_silent_node_is_not_waited_for(self):
        self.report('a')
        self.set_conditions(b='silent')
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_a_node_that_lags_is_waited_for_only_so_long(self):
        self.report('a')
        self.work()
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_what_no_node_has_done_in_time_can_be_changed_again(self):
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
        # The tenant corrects it.
        self.request(advancing.member('delete', 'm1'))
        self.commit(advancing.PATH, {('member', 'm1')})
        self.work()
        self.report()
        self.work()
        self.assertEqual(('ACTIVE', 'ONLINE'), (
            self.provisioning(), self.octavia.operating('lb')))
        self.assertEqual('DELETED', self.provisioning('m1'))

    def test_a_failing_node_degrades_the_load_balancer(self):
        self.report('a')
        self.report('b', error='map full')
        self.work()
        self.assertEqual(('ACTIVE', 'DEGRADED'), (
            self.provisioning(), self.octavia.operating('lb')))

    def test_only_what_the_change_made_pending_becomes_active(self):
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

    def test_a_change_of_health_is_sent_once_and_alone(self):
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

    def test_a_removed_member_stays_until_nodes_have_removed_it(self):
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

    def test_an_item_that_was_taken_over_sends_nothing(self):
        self.report()
        item, = self.store.claim('test', 1, 60)
        self.advance.step(item, lambda: False)
        self.assertEqual({}, self.octavia.statuses)

    def test_what_was_sent_last_leaves_the_queue_with_the_note_of_it(self):
        self.report()
        item, = self.store.claim('test', 1, 60)
        self.assertIs(workers.FINISHED,
                      self.advance.step(item, lambda: True))
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual(set(), self.store.marked(['lb']))
        # Nothing is sent, and so nothing noted.
        self.store.mark(['lb'])
        item, = self.store.claim('test', 1, 60)
        self.assertIsNone(self.advance.step(item, lambda: True))

    def test_it_stays_where_it_was_marked_or_taken_meanwhile(self):
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

    def test_it_stays_where_it_is_to_be_looked_at_again(self):
        self.report('a')
        self.now += self.conf.controller.status_timeout + 1
        item, = self.store.claim('test', 1, 60)
        self.assertIsNone(self.advance.step(item, lambda: True))
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual({'lb'}, self.store.marked(['lb']))

    def test_no_live_node_is_an_error_and_its_return_mends_it(self):
        self.report()
        self.work()
        self.set_conditions(a='dead', b='dead')
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.assertEqual('ERROR', self.octavia.operating('lb'))
        self.set_conditions(a='live', b='live')
        self.work()
        self.assertEqual('ONLINE', self.octavia.operating('lb'))
