# SPDX-License-Identifier: Apache-2.0
"""The order in which ways to members on hypervisors are made and moved."""

import threading
from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.zero_touch import moves
from octavia_xdp_provider.controller.zero_touch import service
from octavia_xdp_provider.process import loops
from octavia_xdp_provider.tests.unit.controller import hypervisors


class Order(hypervisors.ZeroTouchTestCase):

    def test_hypervisor_gets_the_entry_before_nodes_get_the_tunnel(self):
        self.create()
        self.assertEqual({}, self.sent())
        self.step()
        self.assertIn('hv1', self.notified)
        self.assertEqual({}, self.sent())
        self.assertEqual({'m1', 'm2'}, spec.undecided(self.row().document))
        self.assertIn('not confirmed', self.ways()['m1'].reason)
        self.hv1.pass_()
        self.assertEqual(2, len(self.hv1.keys()))
        self.step()
        self.assertIn('lb1', self.notified)
        tunnels = [member['tunnel'] for member in self.sent().values()]
        self.assertEqual(self.hv1.keys(), {
            tunnel['keys']['listener'] for tunnel in tunnels})
        for tunnel in tunnels:
            self.assertEqual(('198.18.20.1', 'geneve', 1442), (
                tunnel['address'], tunnel['encapsulation'], tunnel['mtu']))
        self.assertEqual(set(), spec.undecided(self.row().document))
        self.assertEqual(('tunnel', 'hv1', ''), (
            self.ways()['m1'].way, self.ways()['m1'].host,
            self.ways()['m1'].reason))

    def test_hypervisor_gets_entries_and_rules(self):
        self.create()
        self.converge()
        self.assertEqual(set(hypervisors.PORTS.values()), set(self.hv1.held))
        document = self.hv1.held[hypervisors.PORTS['m1']]['document']
        entry, = document['entries']
        self.assertEqual(
            ('lb', 'listener', 'm1', '203.0.113.10', 80,
             hypervisors.ADDRESSES['m1'], 8080, 6, 'fa:16:3e:00:00:01'),
            tuple(entry[name] for name in (
                'load_balancer_id', 'listener_id', 'member_id', 'vip',
                'vip_port', 'address', 'port', 'protocol', 'gateway_mac')))
        self.assertEqual([{
            'ip_version': 4, 'protocol': 6, 'ports': [8080, 8080],
            'remote_network': None, 'address_set': None}],
            document['rules'])

    def test_nothing_is_stored_without_changes(self):
        self.create()
        self.converge()
        before = self.row().generation
        sequence = self.hv1.endpoint.fetch({}, host='hv1', since=0)['as_of']
        del self.notified[:]
        for _ in range(3):
            self.step()
        self.assertEqual(before, self.row().generation)
        self.assertEqual(sequence, self.hv1.endpoint.fetch(
            {}, host='hv1', since=0)['as_of'])
        self.assertEqual([], self.notified)

    def test_nodes_stop_before_the_entry_is_removed(self):
        self.create()
        self.converge()
        key = self.members()['m2']['tunnel']['keys']['listener']

        def drop(document):
            del document['pools']['pool']['members']['m2']
            return document
        self.store.load_balancers.change('lb', drop)
        for _ in range(3):
            self.step()
            self.hv1.pass_()
        self.assertIn(key, self.hv1.keys())
        self.node_syncs()
        self.step()
        self.hv1.pass_()
        self.assertNotIn(key, self.hv1.keys())
        self.assertEqual({hypervisors.PORTS['m1']}, set(self.hv1.held))

    def test_deleted_load_balancer_leaves_nothing(self):
        self.create()
        self.converge()
        self.store.load_balancers.delete('lb')
        self.step()
        self.hv1.pass_()
        self.assertEqual(2, len(self.hv1.keys()))
        self.report_held('lb1', self.row().generation, {})
        self.step()
        self.hv1.pass_()
        self.hv1.pass_()
        self.assertEqual(set(), self.hv1.keys())
        self.assertEqual([], self.store.hypervisors.objects())
        self.assertEqual({}, self.ways())
        self.now += hypervisors.QUARANTINE_S + 1
        self.step()
        self.assertEqual([], self.store.ways.host_keys())

    def test_new_listener_waits_without_affecting_others(self):
        self.create()
        self.converge()

        def add(document):
            document['listeners']['second'] = {
                **document['listeners']['listener'], 'protocol_port': 81}
            return document
        self.store.load_balancers.change('lb', add)
        sent = spec.for_node(self.row().document)
        self.assertEqual({'listener'}, set(sent['listeners']))
        self.assertEqual({'m1', 'm2'}, set(self.sent()))
        self.assertEqual({'m1', 'm2'}, spec.undecided(self.row().document))
        self.converge()
        sent = spec.for_node(self.row().document)
        self.assertEqual({'listener', 'second'}, set(sent['listeners']))
        self.assertEqual(4, len(self.hv1.keys()))

    def test_new_leader_continues(self):
        self.create()
        self.step()
        self.worker = self.new_worker()
        self.hv1.pass_()
        self.step()
        self.assertEqual({'m1', 'm2'}, set(self.sent()))
        generation = self.row().generation
        self.worker = self.new_worker()
        self.step()
        self.assertEqual(generation, self.row().generation)

    def promote(self, **change):
        request = hypervisors.uuid(int(change.pop('number')))
        self.store.requests.add({'load_balancer_id': 'lb', 'object_id': 'lb',
                                 'object': 'loadbalancer', **change}, request)
        return self.store.load_balancers.promote_request(request, 0,
                                                         ['live']).zero_touch

    def test_zero_touch_changes_are_marked(self):
        self.assertTrue(self.promote(
            number=1, action='create', fields=self.tree()))
        self.assertTrue(self.promote(number=2, action='delete'))

    def test_other_changes_are_not_marked(self):
        fields = {**self.tree(), 'flavor': {'member_port': 'rewrite'}}
        self.assertFalse(self.promote(
            number=1, action='create', fields=fields))
        self.assertFalse(self.promote(number=2, action='delete'))

    def test_hanging_call_to_neutron_is_detected(self):
        now, asked, answer = [0.0], threading.Event(), threading.Event()
        self.addCleanup(answer.set)
        watched = loops.Loops(10, lambda: now[0])

        def hang(*arguments, **filters):
            asked.set()
            answer.wait(60)
            return []
        self.create()
        self.neutron.ports = hang
        loop = service.loop(self.worker, watched.watch('zero touch'))
        thread = self.run_in_thread(loop)
        self.assertTrue(asked.wait(60))
        now[0] += 11
        self.assertEqual({'zero touch': 11}, watched.hanging())
        answer.set()
        loop.stop()
        thread.join(60)
        self.assertFalse(thread.is_alive())

    def test_nothing_is_stored_without_the_lease(self):
        self.create()
        self.store.leases.acquire('other', 'x', 10)
        self.token += 1
        self.assertRaises(service.leases.LeaseLost, self.step)
        self.assertEqual([], self.store.ways.host_keys())


class Migration(hypervisors.ZeroTouchTestCase):

    def test_new_hypervisor_is_prepared_while_the_old_one_is_kept(self):
        self.create()
        self.converge()
        old = self.members()['m1']['tunnel']
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        self.assertEqual({hypervisors.PORTS['m1']}, set(self.hv2.held))
        patience = self.conf.zero_touch.migration_patience
        self.assertEqual({**old, 'patience': patience},
                         self.members()['m1']['tunnel'])
        self.ports[0].update({'binding:host_id': 'hv2',
                              'binding:profile': {}})
        self.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])
        self.hv1.pass_()
        self.step()
        self.hv1.pass_()
        self.assertIn(old['keys']['listener'], self.hv1.keys())
        self.node_syncs()
        self.step()
        self.hv1.pass_()
        self.assertNotIn(old['keys']['listener'], self.hv1.keys())

    def test_migration_is_followed_at_each_step(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        self.ports[0].update({'binding:host_id': 'hv2',
                              'binding:profile': {}})
        # Without a step in turns.
        self.worker.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])
        self.ports[0]['binding:host_id'] = 'hv1'
        self.worker.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])

    def test_new_hypervisor_keeps_entries_while_neutron_has_no_binding(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        self.node_syncs()
        held, old = dict(self.hv2.held), self.members()['m1']['tunnel']
        self.assertEqual({hypervisors.PORTS['m1']}, set(held))
        self.ports[0].update({'binding:host_id': 'hv2', 'binding:profile': {},
                              'binding:vif_type': 'unbound'})
        for _ in range(3):
            self.worker.step()
            self.hv2.pass_()
            self.assertEqual(held, self.hv2.held)
        # A new leader that has not reached Neutron yet removes nothing either.
        self.worker = self.new_worker()
        with mock.patch.object(self.neutron, 'ports',
                               side_effect=errors.NeutronUnavailable('no')):
            self.worker.step()
        self.hv2.pass_()
        self.assertEqual(held, self.hv2.held)
        self.assertEqual(old, self.members()['m1']['tunnel'])
        self.ports[0]['binding:vif_type'] = 'ovs'
        self.worker.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])
        self.assertEqual(held, self.hv2.held)

    def test_missing_binding_does_not_end_a_migration(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        self.ports[0].update({'binding:host_id': 'hv2', 'binding:profile': {},
                              'binding:vif_type': 'unbound'})
        self.worker.step()
        self.ports[0]['binding:vif_type'] = 'ovs'
        # Without a step in turns.
        self.worker.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])

    def test_endless_migration_is_looked_up_in_turns(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        with mock.patch.object(self.neutron, 'ports',
                               side_effect=self.neutron.ports) as asked:
            self.worker.step()
            self.assertEqual(1, asked.call_count)
            with mock.patch.object(moves, 'FOLLOWED_S', 0):
                self.worker.step()
            self.assertEqual(1, asked.call_count)

    def test_unannounced_move_keeps_the_old_tunnel_until_ready(self):
        self.create()
        self.converge()
        self.ports[0]['binding:host_id'] = 'hv2'
        self.step()
        self.assertEqual('198.18.20.1',
                         self.members()['m1']['tunnel']['address'])
        self.hv2.pass_()
        self.step()
        self.assertEqual('198.18.20.2',
                         self.members()['m1']['tunnel']['address'])
