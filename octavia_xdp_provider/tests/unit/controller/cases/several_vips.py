# SPDX-License-Identifier: Apache-2.0
"""Load balancers with several VIPs: a key per listener, member and VIP."""

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.unit.controller import hypervisors
from octavia_xdp_provider.tests.unit.controller import ports

VIP, VIP6 = '203.0.113.10', '2001:db8:100::10'
ADDRESSES_V6 = {'m1': 'fd00:10::11', 'm2': 'fd00:10::12'}
GATEWAY_V6, MAC_V6 = 'fd00:10::1', 'fa:16:3e:00:00:06'


class SeveralVipsTestCase(hypervisors.ZeroTouchTestCase):

    ADDITIONAL = [VIP6]

    def setUp(self):
        super().setUp()
        for row, address in zip(self.ports, ADDRESSES_V6.values(),
                                strict=False):
            row['fixed_ips'].append({'subnet_id': 'sub-red-v6',
                                     'ip_address': address})
        self.ports.append(ports.port(
            'router-v6', fixed_ips=[{'subnet_id': 'sub-red-v6',
                                     'ip_address': GATEWAY_V6}],
            device_owner='network:router_interface', mac_address=MAC_V6,
            security_groups=[]))
        self.neutron.gateways_of['sub-red-v6'] = GATEWAY_V6
        self.neutron._rules.append(ports.rule(ethertype='IPv6'))
        self.seen('lb1', {'probe_through_datapath': True})

    def tree(self, **more):
        return {**super().tree(**more), 'additional_vips': [
            {'ip_address': vip} for vip in self.ADDITIONAL]}

    def entries(self, host, member):
        document = host.held[hypervisors.PORTS[member]]['document']
        return {entry['vip']: entry for entry in document['entries']}


class BothFamilies(SeveralVipsTestCase):

    def test_each_vip_has_a_key_and_the_address_of_its_family(self):
        self.create()
        self.converge()
        self.assertEqual({'m1', 'm2'}, set(self.sent()))
        self.assertEqual(4, len(self.hv1.keys()))
        for member, tunnel in ((key, member['tunnel']) for key, member
                               in self.sent().items()):
            entries = self.entries(self.hv1, member)
            self.assertEqual({VIP, VIP6}, set(entries))
            self.assertEqual({'listener': entries[VIP]['key']},
                             tunnel['keys'])
            self.assertEqual({VIP6: {'listener': entries[VIP6]['key']}},
                             tunnel['additional_keys'])
            self.assertEqual(
                (hypervisors.ADDRESSES[member], 'fa:16:3e:00:00:01'),
                (entries[VIP]['address'], entries[VIP]['gateway_mac']))
            self.assertEqual(
                (ADDRESSES_V6[member], MAC_V6),
                (entries[VIP6]['address'], entries[VIP6]['gateway_mac']))

    def test_rules_of_both_families_are_judged(self):
        self.create()
        self.converge()
        for held in self.hv1.held.values():
            self.assertEqual([4, 6], sorted(
                rule['ip_version'] for rule in held['document']['rules']))

    def test_port_without_the_other_family_is_named(self):
        del self.ports[1]['fixed_ips'][1]
        self.create()
        self.converge()
        self.assertEqual({'m1'}, set(self.sent()))
        self.assertEqual('none', self.ways()['m2'].way)
        self.assertIn(f'no IPv6 address, to which packets for VIP {VIP6}',
                      self.ways()['m2'].reason)
        # It is given one, and the member is served.
        self.ports[1]['fixed_ips'].append(
            {'subnet_id': 'sub-red-v6', 'ip_address': ADDRESSES_V6['m2']})
        self.converge()
        self.assertEqual({'m1', 'm2'}, set(self.sent()))

    def test_several_addresses_of_the_other_family_are_named(self):
        self.ports[1]['fixed_ips'].append(
            {'subnet_id': 'sub-red-v6', 'ip_address': 'fd00:10::99'})
        self.create()
        self.converge()
        self.assertEqual({'m1'}, set(self.sent()))
        self.assertIn('several IPv6 addresses, fd00:10::12 and fd00:10::99',
                      self.ways()['m2'].reason)

    def test_subnet_without_a_router_is_named(self):
        self.ports.pop()
        self.create()
        self.converge()
        self.assertEqual({}, self.sent())
        self.assertIn('the subnet of fd00:10::11', self.ways()['m1'].reason)

    def test_both_addresses_of_a_vm_count_as_one_server(self):
        tree = self.tree()
        tree['pools']['pool']['members']['m3'] = {
            'address': ADDRESSES_V6['m1'], 'protocol_port': 8080,
            'subnet_id': 'sub-red-v6'}
        self.store.load_balancers.create(spec.document('lb', tree))
        self.store.placements.place('lb', ('lb1',), decided_on=frozenset())
        self.converge()
        self.assertEqual({'m1', 'm2'}, set(self.sent()))
        self.assertIn('same server as member 10.0.0.11',
                      self.ways()['m3'].reason)

        def drop(document):
            del document['pools']['pool']['members']['m1']
            return document
        self.store.load_balancers.change('lb', drop)
        self.converge()
        self.assertEqual({'m2', 'm3'}, set(self.sent()))

    def test_flows_go_to_the_key_of_the_same_vip(self):
        self.create()
        self.converge()
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()
        here, there = (self.entries(host, 'm1')
                       for host in (self.hv1, self.hv2))
        self.assertEqual({'hv2': {
            here[vip]['key']: there[vip]['key'] for vip in (VIP, VIP6)}},
            self.store.ways.flow_targets('hv1', hypervisors.PORTS['m1']))

    def test_new_leader_keeps_the_keys(self):
        self.create()
        self.converge()
        keys, generation = self.hv1.keys(), self.row().generation
        self.worker = self.new_worker()
        self.converge()
        self.assertEqual((keys, generation),
                         (self.hv1.keys(), self.row().generation))

    def test_removed_listener_releases_all_its_keys(self):
        self.create()
        self.converge()

        def drop(document):
            document['listeners'] = {}
            return document
        self.store.load_balancers.change('lb', drop)
        self.converge()
        self.assertEqual(set(), self.hv1.keys())
