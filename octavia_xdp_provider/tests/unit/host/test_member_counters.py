# SPDX-License-Identifier: Apache-2.0
"""Counters by load balancer and member, while entries come and go."""

import types as python_types

import prometheus_client

from octavia_xdp_provider.host import facts
from octavia_xdp_provider.host import member_counters
from octavia_xdp_provider.host import metrics
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.host import fakes

A, B = ('lb', 'a'), ('lb', 'b')


def entry(key, packets):
    return types.EntryState(
        types.Entry(key, fakes.PORT, '203.0.113.10', 80, '10.0.0.5', 8080,
                    'tcp', fakes.MAC, fakes.GATEWAY_MAC),
        packets, 100 * packets, 2 * packets, 300 * packets, 1, 0)


class TestEntrySums(base.TestCase):

    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.counters = member_counters.EntrySums(lambda: self.now)

    def update(self, names, **entries):
        self.counters.learn(names)
        return self.read(**entries)

    def read(self, **entries):
        self.now += 1
        counted = self.counters.update(self.states(**entries), self.now)
        return {name: counts[0] for name, counts in counted.items()}

    @staticmethod
    def states(**entries):
        return [entry(int(key[1:]), packets)
                for key, packets in entries.items()]

    def test_sums_do_not_fall_with_entries(self):
        names = {1: A, 2: A}
        self.assertEqual({A: 7}, self.update(names, k1=3, k2=4))
        self.assertEqual({A: 9}, self.update({1: A}, k1=5))
        # The same key again, and another key of the member.
        self.assertEqual({A: 10}, self.update({1: A}, k1=1))
        self.assertEqual({A: 12}, self.update({5: A}, k5=2))

    def test_last_count_of_a_removed_entry_is_kept(self):
        self.assertEqual({A: 7}, self.update({1: A, 2: A}, k1=3, k2=4))
        for _ in range(2):  # it could not go
            self.counters.ending(self.states(k2=10))
        self.assertEqual({A: 13}, self.update({1: A}, k1=3))

    def test_entry_that_exists_between_two_reads_is_not_counted(self):
        self.update({1: A}, k1=3)
        self.counters.learn({1: A, 2: A})
        self.counters.ending(self.states(k2=10))
        self.counters.learn({1: A})
        self.assertEqual({A: 13}, self.read(k1=3))

    def test_counts_of_a_removed_entry_are_not_added_twice(self):
        self.update({1: A, 2: A}, k1=3, k2=4)
        self.now += 10
        self.counters.ending(self.states(k2=9))
        # It is recreated with the same key, and an old reading has it.
        counted = self.counters.update(self.states(k1=3, k2=8), self.now - 5)
        self.assertEqual(12, counted[A][0])
        self.assertEqual({A: 14}, self.read(k1=3, k2=2))

    def test_members_that_are_gone_are_not_named(self):
        self.update({1: A, 2: B}, k1=3, k2=4)
        self.assertEqual({B: 4}, self.update({2: B}, k2=4))
        self.assertEqual({}, self.update({}, k2=4))

    def test_names_are_those_of_documents(self):
        port = fakes.port(fakes.entry(1), fakes.entry(2, member_id='b'))
        self.assertEqual(
            {1: ('lb', 'member'), 2: ('lb', 'b')}, member_counters.names(
                [port, fakes.address_set('10.0.0.0/8'), {'kind': 'port'},
                 {**port, 'entries': [7, {}]}]))

    def test_metrics_have_them(self):
        carried = member_counters.Carried()
        carried.learn([fakes.port(fakes.entry(1), fakes.entry(2))])
        worker = python_types.SimpleNamespace(
            held={},
            facts=facts.Facts(entries=(entry(1, 3), entry(2, 4))))
        registry = prometheus_client.CollectorRegistry()
        registry.register(metrics.Collector(
            python_types.SimpleNamespace(answered_at=0.0), worker,
            python_types.SimpleNamespace(is_known=True), carried))
        text = prometheus_client.generate_latest(registry).decode()
        for name, value in (('packets_in', 7), ('bytes_out', 2100),
                            ('flows', 2), ('drops', 0)):
            self.assertIn(
                f'octavia_xdp_host_member_{name}_total{{load_balancer="lb",'
                f'member="member"}} {float(value)}\n', text)
        self.assertIn('octavia_xdp_host_port_packets_in_total{port="'
                      f'{fakes.PORT}"}} 7.0\n', text)
