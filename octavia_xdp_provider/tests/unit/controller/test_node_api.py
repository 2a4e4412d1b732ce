# SPDX-License-Identifier: Apache-2.0
"""Requests that a node may make, and protection of other nodes."""

from unittest import mock

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import placements
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import reporting


class TestPeersOfNat(reporting.NodeApiTestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.enterContext(mock.patch.object(
            node_api.time, 'monotonic', lambda: self.now))

    def has(self, host, *pools):
        self.store.nodes.register(host)
        self.store.nodes.set_nat_pools(host, pools)
        self.take(1, 1, host, state={'nat': {'pools': list(pools)}
                                     if pools else None})

    def test_node_is_a_peer_only_at_its_own_addresses(self):
        self.has('a', '198.51.100.0/31')
        self.has('b', '198.51.100.2/31')
        for epoch, claimed in enumerate(
                ('198.51.100.0/31', '0.0.0.0/0', '192.0.2.0/24'), 2):
            self.take(epoch, 1, 'b', state={'nat': {'pools': [
                claimed, '198.51.100.2/31']}})
            self.assertEqual([('a', '198.51.100.0'), ('b', '198.51.100.2')],
                             self.peers())

    def peers(self):
        self.now += 10
        listed = self.api.nat_peers({}, 'a')['peers']
        return [(entry['host'], entry['address']) for entry in listed]

    def test_peers_are_all_nodes_with_pools_that_are_not_dead(self):
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
        with self.store.database.write() as session:
            session.get(models.Node, host).condition = word

    def test_peers_have_one_ip_version(self):
        self.has('a', '2001:db8:40::/127')
        self.has('b', '198.51.100.4/31', '2001:db8:40::4/127')
        self.assertEqual([('a', '2001:db8:40::'), ('b', '2001:db8:40::4')],
                         self.peers())

    def test_number_of_peers_is_limited(self):
        for number in range(messages.NAT_PEERS_MAX + 1):
            self.has(f'n{number:02}', f'198.51.100.{number}/32')
        listed = self.peers()
        self.assertEqual(('n00', 'n15', 16), (
            listed[0][0], listed[-1][0], len(listed)))

    def test_many_requests_cost_one_query(self):
        self.has('a', '198.51.100.0/31')
        self.assertEqual(1, len(self.peers()))
        self.has('b', '198.51.100.4/31')
        self.assertEqual(1, len(self.api.nat_peers({}, 'b')['peers']))
        self.assertEqual(2, len(self.peers()))


    def moving(self):
        self.now += 10
        return self.api.nat_peers({}, 'a')['moving']

    def test_flows_move_while_a_node_is_drained(self):
        self.has('a', '198.51.100.0/31')
        self.has('b', '198.51.100.4/31')
        self.has('c')
        self.store.load_balancers.create(base.document())
        self.store.placements.place('lb', ['a', 'b', 'c'])
        self.assertIs(False, self.moving())
        self.store.placements.place('lb', drain=['c'])  # It does not do NAT.
        self.assertIs(False, self.moving())
        self.store.placements.place('lb', drain=['b'])
        self.assertIs(True, self.moving())
        self.store.placements.place('lb', withdraw=['b'])
        self.assertIs(True, self.moving())
        self.store.placements.place('lb', restore=['b'])
        self.assertIs(False, self.moving())
        self.store.placements.place('lb', withdraw=['a'])
        self.assertIs(True, self.moving())
        # It may still announce it.
        self.store.placements.place('lb', remove=['a'])
        self.assertIs(True, self.moving())
        self.condition('a', 'dead')
        self.assertIs(False, self.moving())

    def test_nothing_moves_without_nat(self):
        self.has('a')
        self.assertIs(False, self.moving())

    def test_moving_flows_are_found_by_an_index(self):
        """Thousands of placements are not read every two seconds."""
        with self.store.database.read_rows() as connection:
            statement = placements._DRAINING.params(hosts=['a', 'b']).compile(
                connection, compile_kwargs={'literal_binds': True})
            plan = connection.exec_driver_sql(
                f'EXPLAIN QUERY PLAN {statement}').all()
        self.assertIn('ix_placements_host_draining_since', str(plan))


class TestBoundary(reporting.NodeApiTestCase):
    """A node that was taken over."""

    def test_unregistered_node_is_refused(self):
        refused = self.assertRaises(errors.Refused, self.take, 1, 1,
                                    host='gone')
        self.assertIn('node create', str(refused))
        self.assertEqual({'a', 'b'}, set(self.store.nodes.hosts()))

    def test_foreign_placements_are_not_changed(self):
        self.store.nodes.register('stolen')
        before = self.store.placements.select()
        for epoch in (1, 2):
            self.take(epoch, 1, host='stolen', held={
                'lb': reporting.held(9, 'x'), 'other': reporting.held(9),
                'none': reporting.held(9)}, gone=['lb'], as_of=2 ** 40)
        self.assertEqual(before, self.store.placements.select())

    def test_foreign_counters_are_ignored(self):
        counters = {'foreign': {'bytes': 10 ** 9, 'flows': 9}}
        self.take(1, 1, counters={'lb': counters, 'other': counters})
        self.assertEqual({}, self.store.figures.statistics(10))
        # Nor by a row that another node has made.
        self.api.report({}, 'b', 1, 1, reporting.report(counters={
            'other': {'foreign': {'bytes': 5, 'flows': 1}}}))
        self.take(1, 2, counters={'lb': counters})
        self.assertEqual({'foreign': (5, 1, 0, 0, 0)},
                         self.store.figures.statistics(10))

    def test_foreign_documents_are_not_sent(self):
        self.take(1, 1)
        answer = self.api.fetch({}, 'a', 0)
        self.assertEqual(['lb'], [entry['id'] for entry in answer['changed']])
        self.assertEqual(['lb'], list(
            self.api.compare({}, 'a')['generations']))
        self.assertEqual([], self.api.documents({}, 'a', ['other']))

    def test_registered_role_decides_what_a_node_is_sent(self):
        """A report that claims another role changes nothing."""
        self.store.nodes.register('p', role='proxy',
                                  addresses=['198.51.100.7'])
        document = base.document()
        document['id'] = 'http'
        document['vip_address'] = '203.0.113.12'
        document['listeners'] = {'h': {**document['listeners']['listener'],
                                       'protocol': 'HTTP'}}
        document['proxies'] = {'listeners': ['h'], 'nodes': {
            'p': {'addresses': ['198.51.100.7'], 'weight': 1}}}
        self.store.load_balancers.create(document)
        self.store.placements.place('http', add=['a', 'p'])
        self.take(1, 1, host='p', state={'role': 'lb'})
        self.take(1, 1, host='a', state={'role': 'proxy'})
        stored = self.store.load_balancers.get('http').document
        for host, view in (
                ('p', views.for_proxy(stored)),
                ('a', spec.for_node(views.for_lb_node(stored)))):
            fetched = {entry['id']: entry['document'] for entry
                       in self.api.fetch({}, host, 0)['changed']}
            self.assertEqual(view, fetched['http'])
            self.assertEqual([view], [
                entry['document']
                for entry in self.api.documents({}, host, ['http'])])
        self.assertNotEqual(views.for_proxy(stored)['listeners'],
                            views.for_lb_node(stored)['listeners'])

    def test_sums_of_counters_are_bounded(self):
        for seq in range(20):
            # Its counters and those of others add up all the same.
            for host, key, listener in (('a', 'lb', 'listener'),
                                        ('b', 'other', 'foreign')):
                self.take(1, seq + 1, host, counters={key: {listener: {
                    'bytes': (seq % 2) * messages.COUNTER_MAX, 'flows': 1}}})
        with self.store.database.write() as session:
            session.add(models.ListenerCounter(
                listener_id='listener', host='b', load_balancer_id='lb',
                last_bytes=0, last_flows=0, total_flows=1,
                total_bytes=2 ** 63 - 1))
        statistics = self.store.figures.statistics(60)
        self.assertLessEqual(2 ** 63 - 1, statistics['listener'].bytes)
        self.assertEqual(2, statistics['listener'].flows)
        self.assertLessEqual(2 ** 63 - 1,
                             self.store.figures.traffic_of_nodes()['b'].bytes)

    def test_malformed_messages_are_refused_by_name(self):
        for field, bad in (
                ('as_of', -1), ('as_of', '1'), ('complete', 1),
                ('held', {'../x': reporting.held(1)}),
                ('held', {'lb': reporting.held(2 ** 63)}),
                ('held', {'lb': reporting.held(1, error='x' * 9000)}),
                ('held', {'lb': reporting.held(1, members={'m': 'fine'})}),
                ('held', {f'lb{number}': reporting.held(1) for number in range(
                    messages.REPORT_PAGE + 1)}),
                ('counters', {'lb': {'l': {'bytes': -1, 'flows': 0}}}),
                ('counters', {'lb': {'l': {'bytes': 1, 'flows': 0,
                                           'drops': -1}}}),
                ('counters', {'lb': {'l': {'bytes': 1, 'flows': 0,
                                           'active': -1}}}),
                *(('counters', {'lb': {'l': {'bytes': 1, 'flows': 0,
                                             name: 2 ** 61}}})
                  for name in ('bytes', 'flows', 'drops', 'active',
                               'bytes_out')),
                ('state', {'services': 'many'}),
                ('state', {'services': 2 ** 40}),
                *(('state', {'bgp_established': value}) for value in (
                    [], [1], [1, 2, 3], [2, 1], [0, 10 ** 6], [0, '1'])),
                *(('state', {'health_checker': value}) for value in (
                    [], {'up': '1'}, {'checks': None},
                    {'stretch_percent': 'x'}, {'late_p99_ms': float('nan')},
                    {'late_p99_ms': float('inf')})),
                *(('state', {'uplinks': value}) for value in (
                    5, [5], [{'v4': 5}], [{'v6': {'mac': 1}}])),
                ('state', {'nat': {'flows': 2 ** 62}}),
                ('state', {'more': 'x' * messages.STATE_BYTES_MAX}),
                ('unknown', 1)):
            error = self.assertRaises(
                errors.Refused, self.take, 1, 1, **{field: bad})
            self.assertIn(f'report.{field}', error.option)
        self.assertRaises(errors.Refused, self.api.fetch, {}, 'a', '0')
        self.assertRaises(errors.Refused, self.api.fetch, {}, '', 0)
        self.assertEqual({0}, {node.last_seen
                               for node in self.store.nodes.all()})


class TestPages(reporting.NodeApiTestCase):

    def test_pages_together_are_everything(self):
        self.take(1, 1)
        for number in range(20, 25):
            self.store.load_balancers.create(spec.document(
                f'lb{number}', base.tree(vip_address=f'203.0.113.{number}',
                                         pools={}, listeners={})))
            self.store.placements.place(f'lb{number}', add=['a'])
        pages, after = [], None
        while not pages or after:
            page = self.store.deltas.changes('a', 0, after, limit=2)
            pages.append([entry['id'] for entry in page['changed']])
            after = page['more']
        self.assertEqual([['lb', 'lb20'], ['lb21', 'lb22'],
                          ['lb23', 'lb24']], pages)
        listed, after = [], None
        while not listed or after:
            page = self.store.deltas.generations('a', after, limit=4)
            listed += page['generations']
            after = page['more']
        self.assertEqual(['lb', *(f'lb{n}' for n in range(20, 25))], listed)

    def sized(self, *sizes):
        """Load balancers lb20 … with documents of so many bytes at least."""
        self.take(1, 1)
        for number, size in enumerate(sizes, 20):
            self.store.load_balancers.create(spec.document(
                f'lb{number}', base.tree(
                    name='x' * size, vip_address=f'203.0.113.{number}',
                    pools={}, listeners={})))
            self.store.placements.place(f'lb{number}', add=['a'])

    def pages(self):
        """Ids of changed ones by page, as a node fetches them."""
        changed, after = [], None
        while not changed or after:
            page = self.api.fetch({}, 'a', 0, after)
            for entry in page['changed']:
                self.assertEqual(entry['id'], entry['document']['id'])
            changed.append([entry['id'] for entry in page['changed']])
            after = page['more']
        return changed

    def test_pages_are_bounded_in_bytes(self):
        large = messages.DOCUMENTS_PAGE_BYTES // 2
        self.sized(large, large, 3 * large, 10, 10)
        self.assertEqual([['lb', 'lb20'], ['lb21'], ['lb22'],
                          ['lb23', 'lb24']], self.pages())

    def test_oversized_document_is_skipped(self):
        self.sized(10, 5000, 10, 5000)
        with mock.patch.object(messages, 'DOCUMENT_BYTES_MAX', 4096):
            self.assertEqual([['lb', 'lb20', 'lb22']], self.pages())
            # Nor where a node compares everything.
            self.assertEqual(['lb22'], [entry['id'] for entry in (
                self.api.documents({}, 'a', ['lb21', 'lb22', 'lb23']))])

    def test_pages_of_oversized_documents_end(self):
        self.sized(5000, 5000, 5000)
        with mock.patch.object(messages, 'DOCUMENT_BYTES_MAX', 10):
            page = self.store.deltas.changes('a', 0, limit=2)
            self.assertEqual(([], 'lb20'), (page['changed'], page['more']))
            page = self.store.deltas.changes('a', 0, 'lb20', limit=2)
            self.assertEqual(([], None), (page['changed'], page['more']))

    def test_only_changes_are_sent(self):
        self.take(1, 1)
        as_of = self.api.fetch({}, 'a', 0)['as_of']
        answer = self.api.fetch({}, 'a', as_of)
        self.assertEqual(([], [], None, False), (
            answer['changed'], answer['removed'], answer['more'],
            answer['compare']))
        self.store.placements.place('other', add=['a'])
        self.store.placements.place('lb', remove=['a'])
        answer = self.api.fetch({}, 'a', as_of)
        self.assertEqual((['other'], ['lb']), (
            [entry['id'] for entry in answer['changed']], answer['removed']))

    def test_node_with_a_newer_generation_compares(self):
        self.take(1, 1)
        self.assertTrue(self.api.fetch({}, 'a', 2 ** 40)['compare'])
        self.assertTrue(self.api.fetch({}, 'stranger', 0)['compare'])


class TestHeartbeat(reporting.NodeApiTestCase):

    def last_seen(self):
        return {node.host: node.last_seen for node in self.store.nodes.all()}

    def test_heartbeat_keeps_a_reported_node_alive(self):
        api = node_api.HeartbeatEndpoint(self.store.nodes.heartbeat)
        for host in ('a', 'nobody'):
            api.heartbeat({}, host)
        self.assertEqual({'a': 0, 'b': 0}, self.last_seen())
        self.take(1, 1)
        before = self.last_seen()
        api.heartbeat({}, 'a')
        self.assertLess(before['a'], self.last_seen()['a'])
        self.assertEqual(0, self.last_seen()['b'])
