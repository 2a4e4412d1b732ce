# SPDX-License-Identifier: Apache-2.0
"""Queries about zones of nodes and the spread of load balancers."""

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

WANTED = rows.Wanted(2, 'prefer')


class Zones(store_base.StoreTestCase):

    def setUp(self):
        super().setUp()
        for host in ('a1', 'a2', 'b1'):
            self.store.nodes.register(host, zone=host[0])
        self.store.nodes.register('none')

    def create(self, key, *hosts, flavor=(), zone=None):
        self.number = getattr(self, 'number', 0) + 1
        self.store.load_balancers.create(spec.document(key, base.tree(
            vip_address=f'203.0.113.{self.number}', pools={}, listeners={},
            flavor=dict(flavor),
            availability_zone={'zone': zone} if zone else {})))
        self.store.placements.place(key, hosts)

    def apply(self):
        for host in ('a1', 'a2', 'b1', 'none'):
            self.report_wanted(host)

    def uneven(self, zones=3, after='', limit=9, wanted=WANTED):
        return [row.id for row in self.store.balance.uneven(
            wanted, zones, after, limit)]

    def test_zone_is_what_the_operator_registers(self):
        self.seen('a1', {'zone': 'b'})
        self.assertEqual({'a1': 'a', 'a2': 'a', 'b1': 'b', 'none': ''},
                         self.store.nodes.zones())
        self.assertTrue(self.store.nodes.set_zone('a1', 'c'))
        self.assertTrue(self.store.nodes.set_zone('a2', None))
        self.assertFalse(self.store.nodes.set_zone('nobody', 'c'))
        self.assertEqual({'a1': 'c', 'a2': None}, {
            row.host: row.zone for row in self.store.nodes.all()
            if row.host[0] == 'a'})
        self.assertRaises(errors.Refused, self.store.nodes.set_zone, 'a1', '')
        self.assertRaises(errors.Refused, self.store.nodes.register, 'x',
                          zone='\n')

    def test_nodes_of_a_zone_leave_service_together(self):
        self.assertEqual(['a1', 'a2'],
                         self.store.nodes.set_zone_in_service('a', False))
        self.assertEqual({'a1': (False, True), 'a2': (False, True),
                          'b1': (True, False), 'none': (True, False)}, {
            row.host: (row.in_service, row.draining)
            for row in self.store.nodes.all()})
        self.store.nodes.set_zone_in_service('a', True)
        self.assertEqual({(True, False)}, {
            (row.in_service, row.draining) for row in self.store.nodes.all()})
        self.assertEqual([], self.store.nodes.set_zone_in_service('x', False))

    def test_load_balancers_that_could_be_in_more_zones_are_found(self):
        self.create('one zone', 'a1', 'a2')
        self.create('two zones', 'a1', 'b1')
        self.create('off', 'a1', 'a2', flavor={'spread': 'off'})
        self.create('in a zone', 'a1', 'a2', zone='a')
        self.create('short', 'a1', 'a2', flavor={'replicas': 3})
        self.create('three', 'a1', 'a2', 'b1', flavor={'replicas': 3})
        self.create('four', 'a1', 'a2', 'b1', 'none',
                    flavor={'replicas': 4})
        self.assertEqual([], self.uneven(), 'nothing is applied')
        self.apply()
        self.assertEqual(['one zone', 'three'], self.uneven())
        # With two zones three are as even as they can be.
        self.assertEqual(['one zone'], self.uneven(2))
        self.assertEqual([], self.uneven(wanted=rows.Wanted(2, 'off')))
        self.assertEqual(['one zone'], self.uneven(limit=1))
        self.assertEqual(['three'], self.uneven(after='one zone'))

    def test_load_balancers_that_change_are_left_alone(self):
        self.create('lb', 'a1', 'a2')
        self.apply()
        self.store.placements.place('lb', drain=['a1'])
        self.assertEqual([], self.uneven())
        self.store.placements.place('lb', restore=['a1'])
        self.assertEqual(['lb'], self.uneven())
        self.report_wanted('a1', error='full')
        self.assertEqual([], self.uneven())
        self.report_wanted('a1')
        self.store.load_balancers.delete('lb')
        self.assertEqual([], self.uneven())

    def test_load_balancers_in_one_zone_only_are_counted(self):
        self.create('one zone', 'a1', 'a2')
        self.create('two zones', 'a1', 'b1')
        self.create('without a zone', 'none')
        self.create('single', 'a1', flavor={'replicas': 1})
        self.create('off', 'a1', 'a2', flavor={'spread': 'off'})
        self.create('in a zone', 'a1', 'a2', zone='a')
        self.create('nowhere')
        self.assertEqual({'a': 1, 'b': 0, '': 1},
                         self.store.balance.in_one_zone(WANTED))
        self.set_conditions(b1='dead')
        self.assertEqual({'a': 2, 'b': 0, '': 1},
                         self.store.balance.in_one_zone(WANTED))
        self.set_conditions(b1='live', a1='draining')
        self.assertEqual({'a': 1, 'b': 1, '': 1},
                         self.store.balance.in_one_zone(WANTED))
        self.assertEqual({'a': 0, 'b': 0, '': 0},
                         self.store.balance.in_one_zone(rows.Wanted(2, 'off')))

    def test_single_zone_counts_nothing(self):
        self.create('one zone', 'a1', 'a2')
        for host in ('a1', 'a2', 'b1'):
            self.store.nodes.set_zone(host, None)
        self.assertEqual({}, self.store.balance.in_one_zone(WANTED))

    def test_required_zones_limit_what_is_short(self):
        self.create('required', 'a1', flavor={'spread': 'require'})
        self.create('preferred', 'a1')

        def marked():
            items = self.store.work.claim('worker', 9, 60)
            for item in items:
                self.store.work.finish(item, 'worker')
            return {item.load_balancer_id for item in items}

        def short(live, zones):
            self.store.balance.mark_short(WANTED, live, zones, 9)
            return marked()
        self.assertEqual({'preferred', 'required'}, marked())
        self.assertEqual({'preferred'}, short(3, 1))
        self.assertEqual({'preferred', 'required'}, short(3, 2))
        self.assertEqual(set(), short(1, 1))
