# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller import statistics
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.controller.store import tier_counters
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base


class Octavia:
    """Keeps what it was sent; ``error`` and ``bad`` make it refuse."""

    def __init__(self):
        self.messages = []
        self.bad = set()
        self.error = None

    def set_statistics(self, listeners):
        records = list(listeners)
        if self.error:
            raise self.error
        if self.bad & {record['id'] for record in records}:
            raise errors.Rejected('out of range')
        self.messages.append({
            record['id']: (record['bytes_in'], record['total_connections'])
            for record in records})


class Counters:
    def __init__(self):
        self.sums = {}

    def statistics(self, _node_timeout):
        return dict(self.sums)


class TestStatistics(base.TestCase):

    def setUp(self):
        super().setUp()
        self.counters, self.octavia = Counters(), Octavia()
        self.statistics = statistics.Statistics(
            self.counters, self.octavia, 10)

    def sent(self, sums):
        self.octavia.messages.clear()
        self.counters.sums = sums
        self.statistics.send()
        return self.octavia.messages

    def test_record_has_all_fields_of_octavia_lib(self):
        self.assertEqual(
            {'id': 'a', 'bytes_in': 5, 'bytes_out': 0,
             'active_connections': 4, 'total_connections': 2,
             'request_errors': 3}, statistics.record('a', 5, 2, 3, 4))

    def test_only_changes_are_sent_and_twice(self):
        self.assertEqual([], self.sent({}))
        self.assertEqual([{'a': (1, 1), 'b': (2, 2)}],
                         self.sent({'a': (1, 1), 'b': (2, 2)}))
        self.assertEqual([{'a': (1, 1), 'b': (3, 2)}],
                         self.sent({'a': (1, 1), 'b': (3, 2)}))
        self.assertEqual([{'b': (3, 2)}],
                         self.sent({'a': (1, 1), 'b': (3, 2)}))
        self.assertEqual([], self.sent({'a': (1, 1), 'b': (3, 2)}))

    def test_late_sums_of_a_former_leader_are_overwritten(self):
        other = statistics.Statistics(self.counters, self.octavia, 10)
        self.counters.sums = {'a': (9, 9)}
        old = Counters()
        old.sums = {'a': (1, 1)}
        other._counters = old
        self.statistics.send()
        other.send()
        self.assertEqual([{'a': (9, 9)}], self.sent({'a': (9, 9)}))

    def test_failed_message_is_sent_again(self):
        self.octavia.error = errors.OctaviaUnavailable('away')
        self.assertEqual([], self.sent({'a': (1, 1)}))
        self.assertEqual([], self.sent({'a': (1, 1)}))
        self.octavia.error = None
        self.assertEqual([{'a': (1, 1)}], self.sent({'a': (1, 1)}))

    def test_bad_record_does_not_stop_the_others(self):
        self.octavia.bad = {'c'}
        sums = dict.fromkeys('abcdefg', (1, 1))
        sent = {}
        for message in self.sent(sums):
            sent.update(message)
        self.assertEqual(set('abdefg'), sent.keys())
        self.sent(sums)
        self.assertEqual([], self.sent(sums))
        self.octavia.bad = set()
        self.assertEqual([{'c': (2, 1)}],
                         self.sent(dict(sums, c=(2, 1))))

    def test_refusal_of_everything_ends_the_round(self):
        sums = {f'{number:04}': (1, 1) for number in range(100)}
        self.octavia.bad = set(sums)
        calls = []
        refuse = self.octavia.set_statistics
        self.octavia.set_statistics = lambda records: (
            calls.append(1), refuse(records))
        self.assertEqual([], self.sent(sums))
        self.assertLessEqual(len(calls), statistics.REFUSED_MAX)
        self.octavia.bad = set()
        self.assertEqual([sums], self.sent(sums))

    def test_size_of_messages_is_limited(self):
        sums = {f'{number:04}': (1, 1)
                for number in range(2 * statistics.LISTENERS_MAX + 1)}
        self.assertEqual([statistics.LISTENERS_MAX] * 2 + [1],
                         list(map(len, self.sent(sums))))

    def test_removed_listener_is_forgotten(self):
        self.sent({'a': (1, 1)})
        self.assertEqual([], self.sent({}))
        self.assertEqual([{'a': (1, 1)}], self.sent({'a': (1, 1)}))


class TestSums(store_base.StoreTestCase):
    """The store's sums never fall, except for active flows."""

    def setUp(self):
        super().setUp()
        self.hold_time()
        self.store.load_balancers.create(base.document())
        self.store.placements.place('lb', ['a', 'b'])

    def hear(self, *hosts):
        for host in hosts:
            self.seen(host, {})

    def count(self, host, size, flows, **more):
        super().count(host, {'lb': {'listener': {
            'bytes': size, 'flows': flows, **more}}})

    def sums(self):
        return self.store.figures.statistics(10)['listener']

    def test_restarted_node_continues_its_counts(self):
        self.count('a', 10, 1)
        self.count('a', 4, 1)
        self.assertEqual((14, 1, 0, 0, 0), self.sums())
        self.count('a', 4, 1, drops=7)
        self.count('a', 4, 1, drops=2)
        self.assertEqual((14, 1, 9, 0, 0), self.sums())

    def test_counts_of_a_removed_node_stay(self):
        self.count('a', 10, 1, drops=3)
        self.store.placements.place('lb', remove=['a'])
        self.store.nodes.remove('a')
        self.assertEqual((10, 1, 3, 0, 0), self.sums())
        self.count('b', 1, 1, drops=1)
        self.assertEqual((11, 2, 4, 0, 0), self.sums())

    def test_active_flows_are_current_ones(self):
        self.hear('a', 'b')
        self.count('a', 10, 1, active=7)
        self.count('b', 10, 1, active=5)
        self.assertEqual(12, self.sums().active)
        self.count('a', 10, 1, active=2)
        self.assertEqual(7, self.sums().active)
        # A release that does not report active flows.
        self.count('a', 10, 1)
        self.assertEqual(5, self.sums().active)

    def test_active_flows_of_a_silent_node_do_not_count(self):
        self.hear('a', 'b')
        self.count('a', 10, 1, active=7)
        self.count('b', 10, 1, active=5)
        self.now += 8
        self.hear('a')
        self.now += 3
        self.assertEqual((20, 2, 0, 7, 0), self.sums())
        self.hear('b')
        self.assertEqual(12, self.sums().active)

    def test_active_flows_of_a_removed_node_do_not_count(self):
        self.hear('a', 'b')
        self.count('a', 10, 1, active=7)
        self.count('b', 10, 1, active=5)
        self.store.placements.place('lb', remove=['b'])
        self.report_held('b', 10 ** 9, {})
        self.assertEqual((20, 2, 0, 7, 0), self.sums())
        self.store.nodes.remove('a')
        self.assertEqual((20, 2, 0, 0, 0), self.sums())

    def test_bytes_to_clients_are_summed_if_reported(self):
        self.count('a', 10, 1, bytes_out=1000)
        self.count('b', 10, 1, bytes_out=2000)
        self.count('a', 11, 1, bytes_out=1500)
        self.assertEqual(3500, self.sums().bytes_out)
        # A restarted node, and one that does not report them.
        self.count('a', 1, 0, bytes_out=7)
        self.count('b', 20, 1)
        self.assertEqual(3507, self.sums().bytes_out)
        self.assertEqual(3507, statistics.record(
            'listener', *self.sums())['bytes_out'])


class TestTiers(store_base.StoreTestCase):
    """LB node a and proxy node p both count a listener."""

    def create(self, protocol):
        self.renew()
        self.store.nodes.register('p', role=rows.PROXY,
                                  addresses=['192.0.2.1'])
        for host in ('a', 'p'):
            self.seen(host, {})
        self.store.load_balancers.create(self.document(protocol))
        self.store.placements.place('lb', ['a', 'p'])

    def document(self, protocol):
        document = base.document()
        document['listeners']['listener']['protocol'] = protocol
        document['pools']['pool']['protocol'] = protocol
        return document

    def move(self, protocol):
        self.store.load_balancers.change(
            'lb', lambda before: self.document(protocol))

    def count(self, host, size, flows, drops=0, active=0):
        super().count(host, {'lb': {'listener': {
            'bytes': size, 'flows': flows, 'drops': drops, 'active': active,
            'bytes_out': 2 * size}}})

    def sums(self):
        return self.store.figures.statistics(60)['listener']

    def test_tier_that_serves_a_listener_counts(self):
        for protocol, expected in (('TCP', (10, 1, 3, 4, 20)),
                                   ('HTTP', (7, 2, 5, 6, 14))):
            self.create(protocol)
            self.count('a', 10, 1, drops=3, active=4)
            self.count('p', 7, 2, drops=5, active=6)
            self.assertEqual(expected, self.sums())
            self.assertEqual(expected[:4], self.store.figures
                             .traffic_of_load_balancers()['lb'])
            self.assertEqual({'a': (10, 1, 3, 4), 'p': (7, 2, 5, 6)},
                             self.store.figures.traffic_of_nodes())

    def test_sums_go_on_when_a_listener_moves_to_the_other_tier(self):
        self.create('TCP')
        self.count('a', 100, 10, active=1)
        self.count('p', 7, 2, active=6)
        self.move('HTTP')
        self.assertEqual((100, 10, 0, 6, 200), self.sums())
        self.count('p', 8, 3, active=6)
        self.count('a', 900, 90)
        self.assertEqual((101, 11, 0, 6, 202), self.sums())
        self.move('TCP')
        self.assertEqual((101, 11, 0, 0, 202), self.sums())
        self.count('a', 901, 91, active=3)
        self.assertEqual((102, 12, 0, 3, 204), self.sums())
        self.assertEqual({'a', 'p'}, set(
            self.store.figures.traffic_of_nodes()))

    def test_node_that_counts_a_moved_listener_later_counts_the_same_way(self):
        self.create('TCP')
        self.move('HTTP')
        self.count('a', 100, 10)
        self.count('p', 7, 2)
        self.assertEqual((7, 2, 0, 0, 14), self.sums())

    def test_absurd_counters_do_not_prevent_a_change(self):
        self.create('TCP')
        self.count('a', 1, 1)
        for host in ('b', 'c'):
            with self.store.database.write() as session:
                row = tier_counters.row_of('lb', 'listener', host, True)
                row.total_bytes = tier_counters.TOTAL_MAX
                session.add(row)
        self.move('HTTP')
        self.move('TCP')
        self.assertLess(0, self.sums().bytes)
