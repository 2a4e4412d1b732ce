# SPDX-License-Identifier: Apache-2.0
"""What a node may say, and what it cannot do to others."""

from unittest import mock

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import placements
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

UP = {'m1': 'up'}


def held(generation, error=None, members=UP, announced=True):
    return {'generation': generation, 'error': error, 'members': members,
            'announced': announced}


def report(as_of=9, complete=True, **more):
    return {'as_of': as_of, 'complete': complete, 'held': {}, 'gone': [],
            'counters': {}, 'state': None, **more}


class NodeApiTestCase(store_base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.touched = []
        self.appeared = []
        arguments = (self.store,
                     lambda host, ids, held: self.touched.append(ids),
                     lambda: self.appeared.append(1))
        self.api = node_api.NodesEndpoint(*arguments)
        self.old = node_api.NodesEndpointV1(*arguments)
        self.store.create(base.document())
        self.store.create(self.other())
        for host, key in (('a', 'lb'), ('b', 'other')):
            self.store.register_node(host)
            self.store.place(key, add=[host])

    def other(self):
        tree = base.tree(vip_address='203.0.113.11')
        tree['listeners'] = {'foreign': dict(tree['listeners']['listener'],
                                             default_pool_id='pool2')}
        tree['pools'] = {'pool2': tree['pools']['pool']}
        return spec.document('other', tree)

    def placement(self, key='lb'):
        placement, = self.store.placements([key])
        return placement

    def take(self, epoch, seq, host='a', **more):
        return self.api.report({}, host, epoch, seq, report(**more))


class TestPeersOfNat(NodeApiTestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.enterContext(mock.patch.object(
            node_api.time, 'monotonic', lambda: self.now))

    def has(self, host, *pools):
        self.store.register_node(host)
        self.take(1, 1, host, state={'nat': {'pools': list(pools)}
                                     if pools else None})

    def peers(self):
        self.now += 10
        found = self.api.nat_peers({}, 'a', takes_moving=True)['peers']
        # Nodes of an earlier version get nothing else.
        self.assertEqual(found, self.api.nat_peers({}, 'a'))
        return [(one['host'], one['address']) for one in found]

    def test_they_are_all_nodes_with_pools_that_are_not_dead(self):
        self.assertEqual([], self.peers())
        self.has('b', '198.51.100.4/31', '2001:db8:40::4/127')
        self.has('c')
        self.has('a', '198.51.100.0/31', '198.51.100.8/32')
        both = [('a', '198.51.100.0'), ('b', '198.51.100.4')]
        self.assertEqual(both, self.peers())
        for host, word in (('a', 'draining'), ('b', 'disabled')):
            self.condition(host, word)
        self.assertEqual(both, self.peers())
        self.condition('b', 'dead')
        self.assertEqual(both[:1], self.peers())

    def condition(self, host, word):
        with self.store._write() as session:
            session.get(models.Node, host).condition = word

    def test_they_have_one_ip_version(self):
        self.has('a', '2001:db8:40::/127')
        self.has('b', '198.51.100.4/31', '2001:db8:40::4/127')
        self.assertEqual([('a', '2001:db8:40::'), ('b', '2001:db8:40::4')],
                         self.peers())

    def test_they_are_no_more_than_there_may_be(self):
        for number in range(messages.NAT_PEERS_MAX + 1):
            self.has(f'n{number:02}', f'198.51.100.{number}/32')
        found = self.peers()
        self.assertEqual(('n00', 'n15', 16), (
            found[0][0], found[-1][0], len(found)))

    def test_many_nodes_that_ask_cost_one_look(self):
        self.has('a', '198.51.100.0/31')
        self.assertEqual(1, len(self.peers()))
        self.has('b', '198.51.100.4/31')
        self.assertEqual(1, len(self.api.nat_peers({}, 'b')))
        self.assertEqual(2, len(self.peers()))


    def moving(self):
        self.now += 10
        return self.api.nat_peers({}, 'a', takes_moving=True)['moving']

    def test_their_flows_are_moved_while_one_of_them_is_left_by_plan(self):
        self.has('a', '198.51.100.0/31')
        self.has('b', '198.51.100.4/31')
        self.has('c')
        self.store.create(base.document())
        self.store.place('lb', ['a', 'b', 'c'])
        self.assertIs(False, self.moving())
        self.store.place('lb', drain=['c'])  # It does not do NAT.
        self.assertIs(False, self.moving())
        self.store.place('lb', drain=['b'])
        self.assertIs(True, self.moving())
        self.store.place('lb', withdraw=['b'])
        self.assertIs(True, self.moving())
        self.store.place('lb', restore=['b'])
        self.assertIs(False, self.moving())
        self.store.place('lb', withdraw=['a'])
        self.assertIs(True, self.moving())
        self.store.place('lb', remove=['a'])  # It may still announce it.
        self.assertIs(True, self.moving())
        self.condition('a', 'dead')
        self.assertIs(False, self.moving())

    def test_nobody_moves_where_nobody_does_nat(self):
        self.has('a')
        self.assertIs(False, self.moving())

    def test_whether_flows_are_moved_is_looked_up_by_an_index(self):
        """Thousands of placements are not read every two seconds."""
        with self.store._reading_rows() as found:
            statement = placements._DRAINING.params(hosts=['a', 'b']).compile(
                found, compile_kwargs={'literal_binds': True})
            plan = found.exec_driver_sql(
                f'EXPLAIN QUERY PLAN {statement}').all()
        self.assertIn('ix_placements_host_draining_since', str(plan))


class TestReports(NodeApiTestCase):

    def test_what_a_node_reports_is_kept_for_all_controllers(self):
        answer = self.take(1, 1, held={'lb': held(3, 'full')})
        self.assertEqual({'taken': True, 'epoch': 1, 'seq': 1}, answer)
        placement = self.placement()
        self.assertEqual((3, 'full', UP, True), (
            placement.synced_generation, placement.error, placement.members,
            placement.announced))
        self.assertEqual([{'lb'}], self.touched)

    def test_a_report_is_taken_once_and_in_order(self):
        self.take(1, 1, held={'lb': held(3)})
        self.take(1, 2, held={'lb': held(4)})
        for seq, taken in ((2, True), (1, False), (4, False)):
            self.assertEqual(
                {'taken': taken, 'epoch': 1, 'seq': 2},
                self.take(1, seq, held={'lb': held(99)}))
        self.assertEqual(4, self.placement().synced_generation)

    def test_an_epoch_begins_with_its_first_report(self):
        self.take(7, 1)
        for epoch, seq in ((6, 1), (8, 2)):
            self.assertEqual({'taken': False, 'epoch': 7, 'seq': 1},
                             self.take(epoch, seq))
        self.assertTrue(self.take(8, 1)['taken'])

    def test_what_a_new_epoch_does_not_report_is_not_there(self):
        self.take(1, 1, held={'lb': held(3)})
        self.take(2, 1, complete=False)
        self.assertEqual(3, self.placement().synced_generation)
        self.take(2, 2)
        placement = self.placement()
        self.assertEqual((0, None, None), (
            placement.synced_generation, placement.members,
            placement.announced))

    def test_a_removal_counts_only_when_the_node_had_seen_it(self):
        self.take(1, 1, held={'lb': held(3)})
        self.store.place('lb', remove=['a'])
        removed = self.placement().removed_generation
        self.take(1, 2, as_of=removed - 1, gone=['lb'])
        self.take(1, 3, as_of=removed, complete=False)
        self.assertEqual('a', self.placement().host)
        self.take(1, 4, as_of=removed)
        self.assertEqual([], self.store.placements(['lb']))

    def test_nothing_of_an_unchanged_report_is_looked_at(self):
        self.take(1, 1, held={'lb': held(3)})
        self.touched.clear()
        self.take(1, 2, held={'lb': held(3)})
        self.assertEqual([], self.touched)

    def node(self, host='a'):
        return {node.host: node for node in self.store.nodes()}[host]

    def test_a_node_is_alive_since_its_first_report(self):
        self.assertEqual(0, self.node().last_seen)
        self.take(1, 1, state={'version': '1'})
        self.take(1, 2)
        self.assertLess(0, self.node().last_seen)
        self.assertEqual({'version': '1'}, self.node().state)
        self.assertEqual([1], self.appeared)


class TestBoundary(NodeApiTestCase):
    """A node that was taken over."""

    def test_who_is_not_registered_is_refused_and_stays_unknown(self):
        for call in (
                lambda: self.take(1, 1, host='gone'),
                lambda: self.old.report({}, 'gone', {
                    'as_of': 0, 'members': {}, 'counters': {}, 'state': {},
                    'synced': {}})):
            refused = self.assertRaises(errors.Refused, call)
            self.assertIn('node create', str(refused))
        self.assertEqual({'a', 'b'}, set(self.store.registered_hosts()))

    def test_it_writes_no_placement_of_others(self):
        self.store.register_node('stolen')
        before = self.store.placements()
        for epoch in (1, 2):
            self.take(epoch, 1, host='stolen', held={
                'lb': held(9, 'x'), 'other': held(9), 'none': held(9)},
                gone=['lb'], as_of=2 ** 40)
        self.old.report({}, 'stolen', {
            'as_of': 2 ** 40, 'members': {'lb': UP}, 'counters': {},
            'state': {}, 'synced': {'lb': {'generation': 9, 'error': 'x'}}})
        self.assertEqual(before, self.store.placements())

    def test_it_counts_for_no_listener_of_others(self):
        counters = {'foreign': {'bytes': 10 ** 9, 'flows': 9}}
        self.take(1, 1, counters={'lb': counters, 'other': counters})
        self.store.count('a', {'lb': counters})
        self.assertEqual({}, self.store.statistics(10))
        # Nor by a row that another node has made.
        self.api.report({}, 'b', 1, 1, report(counters={
            'other': {'foreign': {'bytes': 5, 'flows': 1}}}))
        self.take(1, 2, counters={'lb': counters})
        self.assertEqual({'foreign': (5, 1, 0, 0, 0)},
                         self.store.statistics(10))

    def test_it_fetches_nothing_of_others(self):
        self.take(1, 1)
        answer = self.api.fetch({}, 'a', 0)
        self.assertEqual(['lb'], [one['id'] for one in answer['changed']])
        self.assertEqual(['lb'], list(
            self.api.compare({}, 'a')['generations']))
        self.assertEqual([], self.api.documents({}, 'a', ['other']))

    def test_malformed_messages_are_refused_by_name(self):
        for field, bad in (
                ('as_of', -1), ('as_of', '1'), ('complete', 1),
                ('held', {'../x': held(1)}),
                ('held', {'lb': held(2 ** 63)}),
                ('held', {'lb': held(1, error='x' * 9000)}),
                ('held', {'lb': held(1, members={'m': 'fine'})}),
                ('held', {f'lb{number}': held(1) for number in range(
                    messages.REPORT_PAGE + 1)}),
                ('counters', {'lb': {'l': {'bytes': -1, 'flows': 0}}}),
                ('counters', {'lb': {'l': {'bytes': 1, 'flows': 0,
                                           'drops': -1}}}),
                ('counters', {'lb': {'l': {'bytes': 1, 'flows': 0,
                                           'active': -1}}}),
                ('state', {'services': 'many'}),
                ('state', {'more': 'x' * messages.STATE_BYTES_MAX}),
                ('unknown', 1)):
            error = self.assertRaises(
                errors.Refused, self.take, 1, 1, **{field: bad})
            self.assertIn(f'report.{field}', error.option)
        self.assertRaises(errors.Refused, self.api.fetch, {}, 'a', '0')
        self.assertRaises(errors.Refused, self.api.fetch, {}, '', 0)
        self.assertEqual({0}, {node.last_seen for node in self.store.nodes()})


class TestPages(NodeApiTestCase):

    def test_pages_together_are_everything(self):
        self.take(1, 1)
        for number in range(20, 25):
            self.store.create(spec.document(f'lb{number}', base.tree(
                vip_address=f'203.0.113.{number}', pools={}, listeners={})))
            self.store.place(f'lb{number}', add=['a'])
        pages, after = [], None
        while not pages or after:
            page = self.store.changes('a', 0, after, limit=2)
            pages.append([one['id'] for one in page['changed']])
            after = page['more']
        self.assertEqual([['lb', 'lb20'], ['lb21', 'lb22'],
                          ['lb23', 'lb24']], pages)
        listed, after = [], None
        while not listed or after:
            page = self.store.generations('a', after, limit=4)
            listed += page['generations']
            after = page['more']
        self.assertEqual(['lb', *(f'lb{n}' for n in range(20, 25))], listed)

    def test_only_what_has_changed_is_sent(self):
        self.take(1, 1)
        as_of = self.api.fetch({}, 'a', 0)['as_of']
        answer = self.api.fetch({}, 'a', as_of)
        self.assertEqual(([], [], None, False), (
            answer['changed'], answer['removed'], answer['more'],
            answer['compare']))
        self.store.place('other', add=['a'])
        self.store.place('lb', remove=['a'])
        answer = self.api.fetch({}, 'a', as_of)
        self.assertEqual((['other'], ['lb']), (
            [one['id'] for one in answer['changed']], answer['removed']))

    def test_a_node_that_has_seen_more_is_to_compare(self):
        self.take(1, 1)
        self.assertTrue(self.api.fetch({}, 'a', 2 ** 40)['compare'])
        self.assertTrue(self.api.fetch({}, 'stranger', 0)['compare'])


class TestHeartbeat(NodeApiTestCase):

    def last_seen(self):
        return {node.host: node.last_seen for node in self.store.nodes()}

    def test_keeps_a_node_alive_once_it_has_reported(self):
        api = node_api.HeartbeatEndpoint(self.store.heartbeat)
        for host in ('a', 'nobody'):
            api.heartbeat({}, host)
        self.assertEqual({'a': 0, 'b': 0}, self.last_seen())
        self.take(1, 1)
        before = self.last_seen()
        api.heartbeat({}, 'a')
        self.assertLess(before['a'], self.last_seen()['a'])
        self.assertEqual(0, self.last_seen()['b'])


class TestVersion1(NodeApiTestCase):
    """Nodes of an earlier release are served as well."""

    def test_it_fetches_and_reports_everything(self):
        answer = self.old.fetch({}, 'a', {})
        self.assertEqual(['lb'], list(answer['documents']))
        self.old.report({}, 'a', {
            'as_of': answer['as_of'], 'members': {'lb': UP},
            'counters': {'lb': {'listener': {'bytes': 7, 'flows': 1}}},
            'state': {'announced': ['203.0.113.10/32']},
            'synced': {'lb': {'generation': 3, 'error': None}}})
        placement = self.placement()
        self.assertEqual((3, UP, None), (
            placement.synced_generation, placement.members,
            placement.announced))
        self.assertEqual({'listener': (7, 1, 0, 0, 0)},
                         self.store.statistics(10))

    def test_a_node_may_change_its_version_both_ways(self):
        for epoch in (1, 2):
            self.take(epoch, 1, held={'lb': held(3)})
            self.assertTrue(self.placement().announced)
            self.old.report({}, 'a', {
                'as_of': 9, 'members': {}, 'counters': {}, 'state': {},
                'synced': {'lb': {'generation': 4, 'error': None}}})
            self.assertEqual(4, self.placement().synced_generation)
