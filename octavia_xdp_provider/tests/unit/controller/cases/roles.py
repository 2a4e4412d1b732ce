# SPDX-License-Identifier: Apache-2.0
"""Queries about placements on LB nodes and on proxy nodes."""

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

WANTED = rows.Wanted(2, 'prefer')
LB_NODES, PROXIES = ('a1', 'b1', 'c1'), ('pa1', 'pa2', 'pb1')


class Roles(store_base.StoreTestCase):
    """Load balancers "http", which needs proxies, and "tcp"."""

    def setUp(self):
        super().setUp()
        for host in LB_NODES:
            self.store.nodes.register(host, zone=host[0])
        for number, host in enumerate(PROXIES):
            self.store.nodes.register(
                host, zone=host[1], role=rows.PROXY,
                addresses=[f'198.51.100.{number + 1}'])
        for number, key in enumerate(('http', 'tcp')):
            tree = base.tree(vip_address=f'203.0.113.{10 + number}', pools={})
            tree['listeners'] = {f'l-{key}': {
                'protocol': key.upper(), 'protocol_port': 80}}
            self.store.load_balancers.create(spec.document(key, tree))

    def place(self, key, *hosts, **more):
        self.assertTrue(self.store.placements.place(key, hosts, **more))
        for host in (*LB_NODES, *PROXIES):
            self.report_wanted(host)

    def test_conditions_are_those_of_a_role(self):
        self.set_conditions(a1='live', pa1='dead')
        nodes = self.store.nodes
        self.assertEqual({'a1': 'live', 'b1': None, 'c1': None},
                         nodes.conditions(rows.LB))
        self.assertEqual({'pa1': 'dead', 'pa2': None, 'pb1': None},
                         nodes.conditions(rows.PROXY))
        self.assertEqual({*LB_NODES, *PROXIES}, set(nodes.conditions()))

    def test_moves_of_one_role_do_not_conflict_with_the_other(self):
        self.place('http', 'a1', 'b1')
        self.place('http', 'pa1', role=rows.PROXY, decided_on=frozenset())
        self.place('http', 'c1', decided_on=frozenset(('a1', 'b1')))
        self.assertFalse(self.store.placements.place(
            'http', ['pb1'], role=rows.PROXY, decided_on=frozenset()))

    def test_moves_under_way_are_counted_by_role(self):
        """Proxy nodes that nothing needs any more are no move."""
        self.place('http', 'a1', 'b1', 'pa1', 'pb1')
        self.place('tcp', 'a1', 'b1', 'pa1', 'pa2', 'pb1')
        for host, number in (('pa2', 1), ('c1', 2)):
            self.place('http', host)
            self.assertEqual(number, self.store.balance.moves_under_way(2))

    def test_load_balancers_short_of_a_role_are_marked(self):
        self.place('http', 'a1', 'b1', 'pa1')
        self.place('tcp', 'a1')
        for role, expected in ((rows.LB, {'tcp'}), (rows.PROXY, {'http'})):
            for item in self.store.work.claim('test', 9, 60):
                self.store.work.finish(item, 'test')
            self.store.balance.mark_short(WANTED, 3, 3, 9, role)
            self.assertEqual(expected,
                             self.store.work.marked(['http', 'tcp']))

    def test_load_balancers_are_movable_within_a_role(self):
        self.place('http', 'a1', 'b1', 'pa1', 'pa2')
        for source, target, role, expected in (
                ('a1', 'c1', rows.LB, ['http']),
                ('pa1', 'pb1', rows.PROXY, ['http']),
                ('pa1', 'pa2', rows.PROXY, [])):
            self.assertEqual(expected, [
                row.id for row in self.store.balance.movable(
                    source, target, 2, 9, role)], target)
        self.place('http', 'c1')
        self.assertEqual([], self.store.balance.movable('a1', 'x', 2, 9))
        self.assertEqual(1, len(self.store.balance.movable(
            'pa1', 'pb1', 2, 9, rows.PROXY)))

    def test_zones_are_those_of_a_role(self):
        self.place('http', 'a1', 'b1', 'pa1', 'pa2')
        uneven = self.store.balance.uneven
        self.assertEqual([], uneven(WANTED, 2, '', 9))
        self.assertEqual(['http'], [
            row.id for row in uneven(WANTED, 2, '', 9, rows.PROXY)])
        self.assertEqual({'a': 1, 'b': 0, 'c': 0},
                         self.store.balance.in_one_zone(WANTED))
        self.place('tcp', 'a1', 'b1', 'pa1', 'pa2')
        self.assertEqual([], uneven(WANTED, 2, 'http', 9, rows.PROXY))
        self.assertEqual({'a': 1, 'b': 0, 'c': 0},
                         self.store.balance.in_one_zone(WANTED))
