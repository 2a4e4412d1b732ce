# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.scheduler import cluster
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base


def host(**state):
    return cluster.Host(rows.Node('a', 0.0, True, state),
                        cluster.Condition.LIVE, 0)


class TestFilters(base.TestCase):

    def test_zone_filter_accepts_the_load_balancers_zone(self):
        anywhere = base.document()
        east = base.document(availability_zone={'zone': 'east'})
        for document, zone, fits in (
                (anywhere, None, True), (anywhere, 'west', True),
                (east, 'east', True), (east, 'west', False),
                (east, None, False)):
            self.assertEqual(
                fits, filters.zone(host(zone=zone), document) is None)

    def test_zero_touch_needs_tunnels_and_probes_through_them(self):
        wants = base.document(flavor={'zero_touch': 'preferred'})
        able = {'document_version': 3, 'probe_through_datapath': True}
        self.assertIsNone(filters.zero_touch(host(), base.document()))
        self.assertIsNone(filters.zero_touch(host(**able), wants))
        for state, word in (({}, 'upgrade'),
                            ({**able, 'document_version': 2}, 'upgrade'),
                            ({**able, 'probe_through_datapath': False},
                             'probe_through_datapath')):
            self.assertIn(word, filters.zero_touch(host(**state), wants))

    def test_several_vips_with_zero_touch_need_newer_nodes(self):
        wants = base.document(flavor={'zero_touch': 'preferred'},
                              additional_vips=[{'ip_address': '2001:db8::1'}])
        able = {'document_version': 4, 'probe_through_datapath': True}
        self.assertIsNone(filters.zero_touch(host(**able), wants))
        self.assertIn('several VIPs', filters.zero_touch(
            host(**{**able, 'document_version': 3}), wants))

    def test_moving_members_need_newer_nodes(self):
        wants = base.document(flavor={'zero_touch': 'preferred'})
        wants['pools']['pool']['members']['m1']['tunnel'] = {
            'address': '198.18.20.1', 'encapsulation': 'geneve', 'key': 7,
            'patience': 30}
        able = {'document_version': 7, 'probe_through_datapath': True}
        self.assertIsNone(filters.zero_touch(host(**able), wants))
        self.assertIn('that are moving need 7', filters.zero_touch(
            host(**{**able, 'document_version': 6}), wants))

    def test_nat_always_needs_nodes_with_pools(self):
        wants = base.document(flavor={'forwarding': 'nat'})
        able = {'document_version': 6, 'nat': {'pools': ['198.51.100.0/28']}}
        self.assertIsNone(filters.nat(host(), base.document()))
        self.assertIsNone(filters.nat(host(**able), wants))
        self.assertIn('upgrade', filters.nat(host(), wants))
        self.assertIn('[nat] pools', filters.nat(
            host(document_version=6), wants))
        self.assertIn(filters.nat, filters.ALWAYS)

    def test_each_vip_takes_table_entries(self):
        document = base.document(
            additional_vips=[{'ip_address': '2001:db8::1'}])
        self.assertEqual(2, filters.services(document))
        self.assertIsNone(filters.capacity(
            host(services=0, services_max=2), document))
        self.assertIsNotNone(filters.capacity(
            host(services=1, services_max=2), document))
