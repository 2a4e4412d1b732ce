# SPDX-License-Identifier: Apache-2.0
"""One load balancer, step by step, against an Octavia in memory."""

from unittest import mock
import uuid

from octavia_xdp_provider.common import changes
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller import advance
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

UP = {'lb': {'m1': 'up', 'm2': 'up'}}
ALL = ('lb', 'listener', 'pool', 'm1', 'm2', 'hm')


def created(**fields):
    return {'object': 'loadbalancer', 'action': 'create', 'object_id': 'lb',
            'load_balancer_id': 'lb', 'fields': base.tree(**fields)}


def member(action, key='m3', **more):
    return dict({'object': 'member', 'action': action, 'object_id': key,
                 'pool_id': 'pool'}, **more)


ADDED = member('create', fields=base.member('198.18.10.13'))
DELETED = {'object': 'loadbalancer', 'action': 'delete', 'object_id': 'lb',
           'load_balancer_id': 'lb'}
PATH = {('loadbalancer', 'lb'), ('listener', 'listener'), ('pool', 'pool')}


class AdvanceTestCase(store_base.StoreTestCase):
    """Nodes a and b are live; ``work`` does what is due."""

    def setUp(self):
        super().setUp()
        self.now = 1_000_000.0
        patch = mock.patch('time.time', side_effect=lambda: self.now)
        patch.start()
        self.addCleanup(patch.stop)
        self.octavia = store_base.FakeOctavia()
        self.notified = set()
        self.restart()
        for host in ('a', 'b'):
            self.seen(host, {})
        self.set_conditions(a='live', b='live')

    def restart(self):
        """Another process: nothing is left but the database."""
        self.advance = advance.Advance(
            self.conf, self.store, self.octavia,
            service.Scheduler(self.conf, self.store), self.notified.update)

    def work(self, steps=20):
        """Do what is due now. Returns the ids."""
        done = []
        for _ in range(steps):
            items = self.store.claim('test', 1, 60)
            if not items:
                return done
            again = self.advance.step(items[0], lambda: True)
            self.store.finish(items[0], 'test', again)
            done.append(items[0].load_balancer_id)
        self.fail(f'it never ends: {done}')

    def request(self, change, seconds=30):
        request = str(uuid.uuid4())
        self.store.request(change, request, self.store.now() + seconds)
        return request

    def commit(self, pending=None, deleted=()):
        """Octavia ends the transaction in which it made the request."""
        row = self.store.load_balancer('lb')
        document = row.pending['expected'] or row.document
        if deleted:
            document = self.octavia.documents['lb']
        self.octavia.commit(document, pending, deleted)

    def report(self, *hosts, error=None, members=UP):
        for host in hosts or ('a', 'b'):
            self.seen(host, {})
            answer = self.store.fetch(host, {})
            self.store.report(host, answer['as_of'], {
                key: {'generation': generation, 'error': error}
                for key, generation in answer['generations'].items()},
                members)

    def do(self, change, pending=None, deleted=()):
        """A change that Octavia commits and nodes make true."""
        self.request(change)
        self.commit(pending, deleted)
        self.work()
        self.report()
        self.work()

    def document(self):
        row = self.store.load_balancer('lb')
        return row and row.document

    def members(self):
        return set(self.document()['pools']['pool']['members'])

    def provisioning(self, key='lb'):
        return self.octavia.provisioning(key)


class TestPromotion(AdvanceTestCase):

    def test_nodes_see_nothing_before_octavia_has_committed(self):
        self.request(created())
        self.work()
        self.assertEqual([], self.store.placements())
        self.assertEqual(set(), self.notified)
        self.assertEqual({}, self.octavia.statuses)
        self.commit()
        self.now += 1
        self.work()
        self.assertEqual({'a', 'b'}, self.notified)
        self.assertEqual({'lb'}, set(
            self.store.fetch('a', {})['generations']))
        self.assertIsNone(self.provisioning())
        self.report()
        self.work()
        for key in ALL:
            self.assertEqual('ACTIVE', self.provisioning(key))
            self.assertEqual('ONLINE', self.octavia.operating(key))

    def test_a_creation_that_was_rolled_back_leaves_nothing(self):
        self.request(created())
        self.now += 29 + self.conf.controller.confirm_timeout
        self.work()
        self.assertIsNotNone(self.store.load_balancer('lb'))
        self.now += 6
        self.work()
        self.assertIsNone(self.store.load_balancer('lb'))
        self.assertEqual({}, self.octavia.statuses)

    def test_an_update_that_was_rolled_back_has_no_effect(self):
        self.do(created())
        before = self.store.load_balancer('lb').generation
        sent = len(self.octavia.messages)
        self.request(member('update', 'm1', fields={'weight': 9}))
        for _ in range(30):
            self.work()
            self.now += 5
        row = self.store.load_balancer('lb')
        self.assertEqual((before, None), (row.generation, row.pending))
        self.assertEqual(sent, len(self.octavia.messages))

    def test_a_removal_that_was_rolled_back_has_no_effect(self):
        """Its object is still in Octavia's tree, and not to be deleted."""
        self.do(created())
        sent = len(self.octavia.messages)
        for change in (member('delete', 'm1'), DELETED, {
                'object': 'member', 'action': 'replace', 'object_id': None,
                'pool_id': 'pool', 'members': {
                    'm1': base.member('198.18.10.11')}}):
            self.request(change)
            for _ in range(30):
                self.work()
                self.now += 5
            self.assertEqual({'m1', 'm2'}, self.members())
            self.assertIsNone(self.store.load_balancer('lb').pending)
            self.assertFalse(self.store.load_balancer('lb').deleted)
        self.assertEqual(sent, len(self.octavia.messages))

    def test_a_request_that_was_taken_back_has_no_effect(self):
        self.do(created())
        request = self.request(DELETED)
        self.store.cancel(request)
        # A later deletion is another request.
        self.octavia.trees['lb']['loadbalancer', 'lb'] = 'PENDING_DELETE'
        self.work()
        self.assertFalse(self.store.load_balancer('lb').deleted)

    def test_a_new_change_takes_the_place_of_one_that_was_rolled_back(self):
        self.do(created())
        self.request(member('delete', 'm1'))
        self.work()
        self.do(ADDED, {*PATH, ('member', 'm3')})
        self.assertEqual({'m1', 'm2', 'm3'}, self.members())
        self.assertEqual('ACTIVE', self.provisioning('m3'))

    def test_a_batch_replaces_the_members(self):
        self.do(created())
        self.request({
            'object': 'member', 'action': 'replace', 'object_id': None,
            'pool_id': 'pool', 'members': {
                'm2': base.member('198.18.10.12'),
                'm4': base.member('198.18.10.14')}})
        self.work()
        self.assertEqual({'m1', 'm2'}, self.members())
        theirs = self.octavia.documents['lb']
        theirs['pools']['pool']['members']['m4'] = spec.with_defaults(
            'member', base.member('198.18.10.14'))
        self.octavia.commit(theirs, PATH, {('member', 'm1')})
        self.now += 5
        self.work()
        self.report()
        self.work()
        self.assertEqual({'m2', 'm4'}, self.members())
        self.assertEqual('DELETED', self.provisioning('m1'))
        self.assertEqual('ACTIVE', self.provisioning('m4'))

    def test_a_process_that_died_at_any_step_is_followed_by_another(self):
        self.request(created())
        self.commit()
        steps = ('provisioning_status', 'set_statuses')
        for name in steps:
            with mock.patch.object(self.octavia, name,
                                   side_effect=SystemExit):
                try:
                    self.work()
                    self.report()
                    self.work()
                except SystemExit:
                    pass
            self.now += 61  # its claim expires
            self.restart()
        self.report()
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_statuses_are_sent_when_octavia_is_back(self):
        self.request(created())
        self.commit()
        self.octavia.available = False
        self.assertRaises(errors.OctaviaUnavailable, self.work)
        self.octavia.available = True
        self.now += 61
        self.work()
        self.report()
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())


class TestStatuses(AdvanceTestCase):

    def setUp(self):
        super().setUp()
        self.request(created())
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
        # The tenant mends it.
        self.request(member('delete', 'm1'))
        self.commit(PATH, {('member', 'm1')})
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
        touched = {*PATH, ('member', 'm1')}
        self.do(member('update', 'm1', fields={'weight': 2}), touched)
        self.assertEqual(
            {(kind, key): {'id': key, 'provisioning_status': 'ACTIVE'}
             for kind, key in touched}, self.octavia.told(sent))

    def test_nothing_is_told_while_nothing_changes(self):
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

    def test_a_change_of_health_is_told_once_and_alone(self):
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
                          in self.octavia.told(sent).items()})

    def test_a_removed_member_stays_until_nodes_have_removed_it(self):
        self.report()
        self.work()
        self.request(member('delete', 'm1'))
        self.commit(PATH, {('member', 'm1')})
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

    def test_an_item_that_was_taken_over_tells_nothing(self):
        self.report()
        item, = self.store.claim('test', 1, 60)
        self.advance.step(item, lambda: False)
        self.assertEqual({}, self.octavia.statuses)

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


class TestDeletion(AdvanceTestCase):

    def setUp(self):
        super().setUp()
        self.do(created())

    def delete(self):
        self.request(DELETED)
        self.commit((), {('loadbalancer', 'lb')})

    def test_deleted_is_sent_when_no_live_node_holds_it(self):
        self.delete()
        self.work()
        self.report('a')
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())
        self.report('b')
        self.work()
        for key in ALL:
            self.assertEqual('DELETED', self.provisioning(key))
        self.assertEqual([], self.store.load_balancers())

    def test_it_stays_pending_until_nodes_have_removed_it_or_are_dead(self):
        self.delete()
        self.work()
        self.now += 10 * self.conf.controller.status_timeout
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())
        self.report('a')
        self.set_conditions(b='dead')
        self.work()
        self.assertEqual('DELETED', self.provisioning())

    def test_one_that_is_told_twice_ends(self):
        """The controller was killed after Octavia knew."""
        self.delete()
        self.work()
        with mock.patch.object(self.store, 'forget', side_effect=SystemExit):
            try:
                self.report()
                self.work()
            except SystemExit:
                pass
        self.assertIsNone(self.octavia.tree('lb'))
        self.now += 61
        self.restart()
        self.work()
        self.assertEqual([], self.store.load_balancers())

    def test_a_removed_member_that_is_told_twice_does_not_block(self):
        self.request(member('delete', 'm1'))
        self.commit(PATH, {('member', 'm1')})
        self.work()
        with mock.patch.object(self.store, 'note_told',
                               side_effect=SystemExit):
            try:
                self.report()
                self.work()
            except SystemExit:
                pass
        self.now += 61
        self.restart()
        self.report()
        self.work()
        self.assertEqual((), self.store.load_balancer('lb').removed)
        self.assertEqual('ACTIVE', self.provisioning())

    def test_a_deletion_of_what_is_not_held_ends(self):
        other = spec.document('other', base.tree())
        self.octavia.commit(other, (), {('loadbalancer', 'other')})
        self.store.request(
            dict(DELETED, object_id='other', load_balancer_id='other'),
            'request', self.store.now() + 30)
        self.work()
        self.assertIsNone(self.octavia.tree('other'))
        self.assertEqual('ACTIVE', self.provisioning('lb'))

    def test_one_of_what_is_not_held_that_was_rolled_back_has_no_effect(self):
        self.octavia.commit(spec.document('other', base.tree()))
        self.store.request(
            dict(DELETED, object_id='other', load_balancer_id='other'),
            'request', self.store.now() + 30)
        for _ in range(30):
            self.work()
            self.now += 5
        self.assertIsNone(self.provisioning('other'))
        self.assertIsNone(self.store.tombstone('other'))

    def test_a_second_deletion_ends_as_the_first(self):
        self.report(error='no')
        self.delete()
        self.work()
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.delete()
        self.work()
        self.report()
        self.work()
        self.assertEqual('DELETED', self.provisioning())


class TestFailover(AdvanceTestCase):

    FAILOVER = {'object': 'loadbalancer', 'action': 'failover',
                'object_id': 'lb', 'load_balancer_id': 'lb'}

    def setUp(self):
        super().setUp()
        self.do(created())
        self.seen('c', {})
        self.seen('d', {})

    def on(self):
        return {row.host for row in self.store.placements()
                if row.removed_generation is None}

    def failover(self):
        with mock.patch.object(changes, 'apply',
                               lambda document, change: document):
            self.request(self.FAILOVER)

    def test_new_nodes_have_it_before_the_old_ones_lose_it(self):
        self.set_conditions(c='live', d='live')
        self.work()
        self.failover()
        self.work()
        self.assertEqual({'a', 'b'}, self.on())
        self.octavia.commit(self.document(), ())
        self.now += 5
        self.work()
        self.assertEqual({'a', 'b', 'c', 'd'}, self.on())
        self.report('a', 'b', 'c')
        self.work()
        self.assertEqual({'a', 'b', 'c', 'd'}, self.on())
        self.report('d')
        self.work()
        self.assertEqual({'c', 'd'}, self.on())
        self.report('a', 'b')
        self.work()
        self.assertEqual('ACTIVE', self.octavia.trees['lb'][
            'loadbalancer', 'lb'])

    def test_without_other_nodes_it_ends_in_time(self):
        self.failover()
        self.octavia.commit(self.document(), ())
        self.work()
        self.report()
        self.work()
        self.assertEqual('PENDING_UPDATE', self.octavia.trees['lb'][
            'loadbalancer', 'lb'])
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.assertEqual('ACTIVE', self.octavia.trees['lb'][
            'loadbalancer', 'lb'])
        self.assertEqual({'a', 'b'}, self.on())
        self.assertFalse(any(row.replace for row in self.store.placements()))
