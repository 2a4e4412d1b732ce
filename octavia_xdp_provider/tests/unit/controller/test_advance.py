# SPDX-License-Identifier: Apache-2.0
"""Advances one load balancer step by step, with an Octavia in memory."""

from unittest import mock

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors as xdp_errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import advancing
from octavia_xdp_provider.tests.unit.controller import requesting


class TestPromotion(advancing.AdvanceTestCase):

    def test_nodes_get_nothing_before_octavia_has_committed(self):
        self.request(requesting.created())
        self.work()
        self.assertEqual([], self.store.placements.select())
        self.assertEqual(set(), self.notified)
        self.assertEqual({}, self.octavia.statuses)
        self.commit()
        self.now += 1
        self.work()
        self.assertEqual({'a', 'b'}, self.notified)
        self.assertEqual({'lb'}, set(
            self.generations('a')))
        self.assertIsNone(self.provisioning())
        self.report()
        self.work()
        for key in advancing.ALL:
            self.assertEqual('ACTIVE', self.provisioning(key))
            self.assertEqual('ONLINE', self.octavia.operating(key))

    def test_rolled_back_creation_leaves_nothing(self):
        self.request(requesting.created())
        self.now += 29 + self.conf.controller.confirm_timeout
        self.work()
        self.assertIsNotNone(self.store.load_balancers.get('lb'))
        self.now += 6
        self.work()
        self.assertIsNone(self.store.load_balancers.get('lb'))
        self.assertEqual({}, self.octavia.statuses)

    def test_rolled_back_change_has_no_effect(self):
        """A removed object is still in Octavia's tree, and must stay."""
        self.do(requesting.created())
        before = self.store.load_balancers.get('lb')
        sent = len(self.octavia.messages)
        for change in (
                requesting.member('update', 'm1', fields={'weight': 9}),
                requesting.member('delete', 'm1'), requesting.deleted(), {
                'object': 'member', 'action': 'replace', 'object_id': None,
                'pool_id': 'pool', 'members': {
                    'm1': base.member('198.18.10.11')}}):
            self.request(change)
            for _ in range(30):
                self.work()
                self.now += 5
            row = self.store.load_balancers.get('lb')
            self.assertEqual(
                (before.generation, before.document, None, False),
                (row.generation, row.document, row.pending, row.deleted))
        self.assertEqual(sent, len(self.octavia.messages))

    def test_cancelled_request_has_no_effect(self):
        self.do(requesting.created())
        request = self.request(requesting.deleted())
        self.store.requests.cancel(request)
        # A later deletion is another request.
        self.octavia.trees['lb']['loadbalancer', 'lb'] = 'PENDING_DELETE'
        self.work()
        self.assertFalse(self.store.load_balancers.get('lb').deleted)

    def test_batch_replaces_the_members(self):
        self.do(requesting.created())
        self.request({
            'object': 'member', 'action': 'replace', 'object_id': None,
            'pool_id': 'pool', 'members': {
                'm2': base.member('198.18.10.12'),
                'm4': base.member('198.18.10.14')}})
        self.work()
        self.assertEqual({'m1', 'm2'}, self.members())
        document = self.octavia.documents['lb']
        document['pools']['pool']['members']['m4'] = spec.with_defaults(
            'member', base.member('198.18.10.14'))
        self.octavia.commit(document, advancing.PATH, {('member', 'm1')})
        self.now += 5
        self.work()
        self.report()
        self.work()
        self.assertEqual({'m2', 'm4'}, self.members())
        self.assertEqual('DELETED', self.provisioning('m1'))
        self.assertEqual('ACTIVE', self.provisioning('m4'))

    def test_another_process_continues_after_a_crash_at_any_step(self):
        self.request(requesting.created())
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


class TestDeletion(advancing.AdvanceTestCase):

    def setUp(self):
        super().setUp()
        self.do(requesting.created())

    def delete(self):
        self.request(requesting.deleted())
        self.commit((), {('loadbalancer', 'lb')})

    def test_deleted_is_sent_once_no_live_node_has_it(self):
        self.delete()
        self.work()
        self.report('a')
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())
        self.report('b')
        self.work()
        for key in advancing.ALL:
            self.assertEqual('DELETED', self.provisioning(key))
        self.assertEqual([], self.store.load_balancers.select())

    def wait(self):
        """Let the time-out pass without a live node's confirmation."""
        self.work()
        self.report('a')
        self.now += self.conf.controller.deletion_timeout + 1
        self.work()

    def test_unconfirmed_deletion_is_an_error(self):
        self.delete()
        self.work()
        self.report('a')
        self.now += self.conf.controller.deletion_timeout - 1
        self.work()
        self.assertEqual('ACTIVE', self.provisioning())
        self.now += 2
        with self.assertLogs('octavia_xdp_provider', 'ERROR') as logged:
            self.work()
        self.assertEqual('ERROR', self.provisioning())
        self.assertIn('nodes b have not', logged.output[0])
        sent = len(self.octavia.messages)
        self.store.work.mark(['lb'])
        self.work()
        self.assertEqual(sent, len(self.octavia.messages))
        self.report('b')
        self.work()
        self.assertEqual('DELETED', self.provisioning())
        self.assertEqual([], self.store.load_balancers.select())

    def test_error_is_sent_again_if_octavia_did_not_answer(self):
        self.delete()
        self.work()
        self.octavia.available = False
        self.assertRaises(errors.OctaviaUnavailable, self.wait)
        self.octavia.available = True
        self.now += 61
        self.work()
        self.assertEqual('ERROR', self.provisioning())

    def test_tenant_may_delete_it_again(self):
        self.delete()
        self.wait()
        self.delete()
        self.now += 5
        self.wait()
        self.assertEqual('ERROR', self.provisioning())
        self.assertEqual('ERROR', self.octavia.trees['lb'][
            'loadbalancer', 'lb'])
        self.set_conditions(b='dead')
        self.work()
        self.assertEqual('DELETED', self.provisioning())

    def test_deleted_load_balancer_refuses_other_changes(self):
        self.delete()
        self.wait()
        error = self.assertRaises(xdp_errors.Conflict, self.request, {
            'object': 'loadbalancer', 'action': 'failover',
            'object_id': 'lb', 'load_balancer_id': 'lb'})
        self.assertIn('lb is being deleted', str(error))

    def test_vip_stays_reserved_while_a_node_may_announce_it(self):
        other = requesting.created()
        other = dict(other, object_id='other', load_balancer_id='other')
        other['fields'].update(listeners={}, pools={})
        self.delete()
        self.work()
        self.report('a')
        error = self.assertRaises(xdp_errors.Conflict, self.request, other)
        self.assertIn('is being deleted', str(error))
        self.set_conditions(b='dead')
        self.request(other)

    def test_repeated_deletion_ends(self):
        """The controller was killed after it had sent DELETED."""
        self.delete()
        self.work()
        with mock.patch.object(self.store.load_balancers, 'forget',
                               side_effect=SystemExit):
            try:
                self.report()
                self.work()
            except SystemExit:
                pass
        self.assertIsNone(self.octavia.tree('lb'))
        self.now += 61
        self.restart()
        self.work()
        self.assertEqual([], self.store.load_balancers.select())

    def test_repeated_deletion_of_a_member_does_not_block(self):
        self.request(requesting.member('delete', 'm1'))
        self.commit(advancing.PATH, {('member', 'm1')})
        self.work()
        with mock.patch.object(self.store.sent_statuses, 'note',
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
        self.assertEqual((), self.store.load_balancers.get('lb').removed)
        self.assertEqual('ACTIVE', self.provisioning())

    def test_deletion_of_unknown_load_balancer_ends(self):
        other = spec.document('other', base.tree())
        self.octavia.commit(other, (), {('loadbalancer', 'other')})
        self.store.requests.add(
            requesting.deleted('other'),
            'request', self.store.database.now() + 30)
        self.work()
        self.assertIsNone(self.octavia.tree('other'))
        self.assertEqual('ACTIVE', self.provisioning('lb'))

    def test_rolled_back_deletion_of_unknown_load_balancer_has_no_effect(self):
        self.octavia.commit(spec.document('other', base.tree()))
        self.store.requests.add(
            requesting.deleted('other'),
            'request', self.store.database.now() + 30)
        for _ in range(30):
            self.work()
            self.now += 5
        self.assertIsNone(self.provisioning('other'))
        self.assertIsNone(self.store.load_balancers.tombstone('other'))


class TestFailover(advancing.AdvanceTestCase):

    FAILOVER = {'object': 'loadbalancer', 'action': 'failover',
                'object_id': 'lb', 'load_balancer_id': 'lb'}

    def setUp(self):
        super().setUp()
        self.do(requesting.created())
        self.seen('c', {})
        self.seen('d', {})

    def on(self):
        return {row.host for row in self.store.placements.select()
                if row.removed_generation is None}

    def failover(self):
        with mock.patch.object(changes, 'apply',
                               lambda document, change: document):
            self.request(self.FAILOVER)

    def test_new_nodes_apply_it_before_old_ones_lose_it(self):
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
        self.assertEqual({'a', 'b', 'c', 'd'}, self.on(), 'they drain')
        self.report('a', 'b')
        self.now += self.conf.placement.drain_time + 1
        self.work()
        self.assertEqual({'c', 'd'}, self.on())
        self.report('a', 'b')
        self.work()
        self.assertEqual('ACTIVE', self.octavia.trees['lb'][
            'loadbalancer', 'lb'])

    def test_failover_without_other_nodes_ends_in_time(self):
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
        self.assertFalse(any(row.replace
                             for row in self.store.placements.select()))


class TestLimitsOfConnections(advancing.AdvanceTestCase):
    """Nodes learn which of them share a connection limit."""

    def announcing(self):
        return self.document().get('announcing')

    def limit(self, limit):
        self.do({'object': 'listener', 'action': 'update',
                 'object_id': 'listener', 'load_balancer_id': 'lb',
                 'fields': {'connection_limit': limit}}, advancing.PATH)

    def create_nat(self):
        for host, pool in (('a', '203.0.113.128/31'),
                           ('b', '203.0.113.130/31')):
            self.store.nodes.set_nat_pools(host, (pool,))
            self.seen(host, {'document_version': spec.VERSION,
                             'nat': {'pools': [pool]}})
        self.do(requesting.created(flavor={'forwarding': 'nat'}))

    def test_no_nodes_are_named_without_a_limit(self):
        self.create_nat()
        self.assertIsNone(self.announcing())

    def test_reachable_nodes_share_the_limit(self):
        self.create_nat()
        self.notified.clear()
        self.limit(10)
        self.assertEqual(['a', 'b'], self.announcing())
        self.assertEqual({'a', 'b'}, self.notified)
        self.assertEqual('ACTIVE', self.provisioning('listener'))
        self.set_conditions(a='live', b='dead')
        self.store.work.mark(['lb'])
        self.work()
        self.assertEqual(['a'], self.announcing())
        self.report('b', announced=False)
        self.set_conditions(a='live', b='live')
        self.store.work.mark(['lb'])
        self.work()
        # Only once it reports that it announces the VIP.
        self.assertEqual(['a'], self.announcing())
        self.report('b')
        self.store.work.mark(['lb'])
        self.work()
        self.assertEqual(['a', 'b'], self.announcing())
