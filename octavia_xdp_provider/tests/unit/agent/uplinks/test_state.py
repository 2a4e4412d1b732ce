# SPDX-License-Identifier: Apache-2.0

from oslotest import base

from octavia_xdp_provider.agent.uplinks import state
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import netlink

NEXT_HOPS = {1: '198.51.100.1', 2: '198.51.100.5'}
MACS = {1: '02:00:00:00:01:01', 2: '02:00:00:00:02:01'}
FAILED = netlink.Neighbour(None, failed=True)
ASKING = netlink.Neighbour(None)


def link(index, **more):
    return netlink.Link(**{**{
        'index': index, 'name': f'eth{index}', 'mtu': 1500,
        'mac': f'02:00:00:00:0{index}:02', 'carrier': True}, **more})


class TestUplinks(base.BaseTestCase):
    """Two uplinks, eth1 and eth2, with IPv4."""

    def setUp(self):
        super().setUp()
        self.links = {1: link(1), 2: link(2)}
        self.sources = {(1, 4): '198.51.100.2', (2, 4): '198.51.100.6'}
        self.routes = [netlink.Route(4, index, NEXT_HOPS[index])
                       for index in (1, 2)]
        self.neighbours = {(index, NEXT_HOPS[index]):
                           netlink.Neighbour(MACS[index]) for index in (1, 2)}
        self.make('eth1', 'eth2')

    def make(self, *names, next_hops=None, by_routes=False):
        self.uplinks = state.Uplinks(names, next_hops or {}, by_routes)

    def look(self):
        self.states, self.ask = self.uplinks.look(netlink.Snapshot(
            self.links, self.sources, tuple(self.routes), self.neighbours))
        return self.uplinks.for_datapath(self.states)

    def indices(self):
        """Return the indices of devices that packets may leave by."""
        return [uplink.ifindex for uplink in self.look()]

    def ready(self, v4='192.0.2.1', v6='2001:db8::1'):
        self.look()
        return self.uplinks.ready(self.states, datapath.NodeSettings(v4, v6))

    def neighbour(self, index, entry):
        self.neighbours[index, NEXT_HOPS[index]] = entry

    def test_each_uplink_has_the_next_hop_of_its_route(self):
        self.assertEqual(
            (datapath.Uplink(1, 1500, '02:00:00:00:01:02', MACS[1]),
             datapath.Uplink(2, 1500, '02:00:00:00:02:02', MACS[2])),
            self.look())
        self.assertEqual(set(), self.ask)
        self.assertEqual({4}, self.ready())
        self.assertEqual(set(), self.ready(v4=None))

    def test_uplink_without_carrier_or_interface_is_out(self):
        self.links[1] = link(1, carrier=False)
        self.assertEqual([2], self.indices())
        self.assertIn('carrier', self.states[0].describe())
        del self.links[1]
        self.assertEqual([2], self.indices())
        self.assertIn('no such interface', self.states[0].describe())
        self.links[2] = link(2, carrier=False)
        self.assertEqual([], self.indices())
        self.assertEqual(set(), self.ready())

    def test_uplink_that_takes_frames_to_others_says_so(self):
        self.links[1] = link(1, promiscuous=True)
        self.assertEqual([1, 2], self.indices())
        self.assertTrue(self.states[0].describe().endswith(
            'eth1 is promiscuous: frames to other hosts\' addresses are '
            'forwarded as well.'))
        self.assertNotIn('promiscuous', self.states[1].describe())

    def test_unresolved_next_hop_is_asked_for(self):
        self.neighbours = {}
        self.assertEqual([], self.indices())
        self.assertEqual({(1, NEXT_HOPS[1]), (2, NEXT_HOPS[2])}, self.ask)
        self.assertEqual(set(), self.ready())

    def test_stale_next_hop_is_asked_for_and_used(self):
        self.neighbour(1, netlink.Neighbour(MACS[1], stale=True))
        self.assertEqual([1, 2], self.indices())
        self.assertEqual({(1, NEXT_HOPS[1])}, self.ask)

    def test_next_hop_without_an_answer_is_out_until_it_answers(self):
        self.look()
        self.neighbour(1, ASKING)
        self.assertEqual([1, 2], self.indices())
        self.neighbour(1, FAILED)
        self.assertEqual([2], self.indices())
        self.assertEqual({(1, NEXT_HOPS[1])}, self.ask)
        self.neighbour(1, ASKING)
        self.assertEqual([2], self.indices())
        self.neighbour(1, netlink.Neighbour(MACS[1]))
        self.assertEqual([1, 2], self.indices())

    def test_flushed_entries_change_nothing(self):
        before = self.look()
        self.neighbours = {}
        self.assertEqual(before, self.look())

    def test_new_mac_of_a_next_hop_is_used(self):
        self.look()
        self.neighbour(1, netlink.Neighbour('02:00:00:00:01:99'))
        self.assertEqual('02:00:00:00:01:99', self.look()[0].next_hop_mac_v4)

    def test_last_next_hop_stays(self):
        self.look()
        self.neighbour(1, FAILED)
        self.assertEqual([2], self.indices())
        self.neighbour(2, FAILED)
        self.assertEqual([1, 2], self.indices())
        self.assertIn('does not answer', self.states[1].describe())
        self.assertEqual({4}, self.ready())
        self.neighbour(2, netlink.Neighbour(MACS[2]))
        self.assertEqual([2], self.indices())

    def test_no_last_resort_without_carrier(self):
        self.look()
        self.neighbour(2, FAILED)
        self.links[1] = link(1, carrier=False)
        self.assertEqual([2], self.indices())
        self.links[1] = link(1)
        self.neighbours.pop((1, NEXT_HOPS[1]))
        self.assertEqual([2], self.indices())

    def test_another_next_hop_forgets_the_last(self):
        self.look()
        self.routes[0] = netlink.Route(4, 1, '198.51.100.3')
        self.assertEqual([2], self.indices())
        self.assertEqual({(1, '198.51.100.3')}, self.ask)

    def test_route_with_the_lowest_metric_is_used(self):
        self.routes[:0] = [netlink.Route(4, 1, '198.51.100.3', metric=100)]
        self.look()
        self.assertEqual(NEXT_HOPS[1], self.states[0].v4.address)

    def test_configured_next_hops_replace_default_routes(self):
        self.make('eth1', next_hops={('eth1', 4): '198.51.100.3',
                                    ('eth1', 6): 'fe80::1'})
        self.neighbours[1, '198.51.100.3'] = netlink.Neighbour(MACS[2])
        self.neighbours[1, 'fe80::1'] = netlink.Neighbour(MACS[1])
        self.assertEqual(
            (datapath.Uplink(1, 1500, '02:00:00:00:01:02', MACS[2],
                             MACS[1]),), self.look())
        self.assertEqual({4, 6}, self.ready())

    def test_each_family_has_a_next_hop_of_its_own(self):
        self.routes.append(netlink.Route(6, 1, 'fe80::1'))
        self.assertEqual({4}, self.ready())
        self.neighbours[1, 'fe80::1'] = netlink.Neighbour(MACS[1])
        self.assertEqual({4, 6}, self.ready())
        self.neighbour(1, FAILED)
        self.assertEqual([(1, None, MACS[1]), (2, MACS[2], None)], [
            (uplink.ifindex, uplink.next_hop_mac_v4, uplink.next_hop_mac_v6)
            for uplink in self.look()])

    def test_ipv4_may_use_an_ipv6_next_hop(self):
        self.routes = [netlink.Route(4, 1, 'fe80::1')]
        self.neighbours[1, 'fe80::1'] = netlink.Neighbour(MACS[1])
        self.make('eth1')
        self.assertEqual(MACS[1], self.look()[0].next_hop_mac_v4)

    def test_vlan_uplink_is_its_device_and_tags(self):
        for tags, wanted in (
                ([(100, 0x8100)], (100,)),
                ([(7, 0x88a8), (100, 0x8100)], (7, 100))):
            self.stack(tags)
            uplink, = self.look()
            self.assertEqual((9, wanted, 1400, MACS[1]), (
                uplink.ifindex, uplink.vlans, uplink.mtu,
                uplink.next_hop_mac_v4))
            self.assertEqual('eth9', self.states[0].device)
            self.assertEqual('198.51.100.2', self.states[0].source_v4)

    def test_unsupported_vlans_are_refused(self):
        for tags in ([(100, 0x88a8)], [(7, 0x8100), (100, 0x8100)],
                     [(7, 0x88a8), (8, 0x8100), (9, 0x8100)]):
            self.stack(tags)
            self.assertEqual((), self.look())
            self.assertIn('VLAN', self.states[0].problem)
        self.stack([(100, 0x8100)])
        self.links[1] = self.links[1]._replace(lower=None)
        self.assertEqual((), self.look())
        self.assertIn('namespace', self.states[0].problem)

    def stack(self, tags):
        """eth1 is a VLAN interface, on eth9 in the end."""
        self.links = {9: link(9, mtu=9000)}
        indices = [1, 12, 11][:len(tags)]
        lowers = [*indices[1:], 9]
        for index, lower, tag in zip(indices, lowers, reversed(tags),
                                     strict=True):
            self.links[index] = link(index, mtu=1400, lower=lower,
                                     vlan=netlink.Vlan(*tag))
        self.make('eth1')

    def test_uplink_needs_no_next_hop_where_the_kernel_routes(self):
        self.make('eth1', 'eth2', by_routes=True)
        self.routes = []
        for number in (1, 2):
            self.links[number] = link(number, forwards=frozenset({4, 6}))
        self.assertEqual([1, 2], self.indices())
        self.assertEqual({4, 6}, self.ready())
        self.assertIn('IPv6 goes where the kernel\'s routes say',
                      self.states[0].describe())
        self.assertFalse(self.states[0].waits)

    def test_uplink_by_routes_needs_kernel_forwarding(self):
        self.make('eth1', 'eth2', by_routes=True)
        self.links[1] = link(1, forwards=frozenset({4, 6}))
        self.links[2] = link(2, forwards=frozenset({4}))
        self.assertEqual({4}, self.ready())
        self.assertEqual([2, 1], [state.answering for state in self.states])
        self.assertIn('net.ipv6.conf.eth2.forwarding is 0',
                      self.states[1].describe())
        self.links[2] = link(2, carrier=False)
        self.assertEqual({4, 6}, self.ready())
        self.links[1] = link(1, carrier=False)
        self.assertEqual(set(), self.ready())

    def test_vlan_uplink_by_routes_is_refused(self):
        self.stack([(100, 0x8100)])
        self.make('eth1', by_routes=True)
        self.assertEqual((), self.look())
        self.assertIn('next_hop = routes', self.states[0].problem)

    def test_only_events_that_may_change_uplinks_concern(self):
        self.look()
        for concerns, event, fields in (
                (True, 'RTM_NEWLINK', {}),
                (True, 'RTM_DELADDR', {}),
                (True, 'RTM_NEWNEIGH', {'ifindex': 1,
                                        'NDA_DST': NEXT_HOPS[1]}),
                (False, 'RTM_NEWNEIGH', {'ifindex': 1,
                                         'NDA_DST': '198.51.100.77'}),
                (True, 'RTM_DELROUTE', {'dst_len': 0}),
                (False, 'RTM_NEWROUTE', {'dst_len': 24})):
            self.assertEqual(concerns, self.uplinks.concerns(
                Message(event=event, **fields)))


class Message(dict):
    """A message with the interface of pyroute2's."""

    get_attr = dict.get
