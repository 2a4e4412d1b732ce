# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.scheduler import cluster
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base


def host(zone=None, **state):
    return cluster.Host(rows.Node('a', 0.0, True, state, zone=zone),
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
                fits, filters.zone(host(zone), document) is None)

    def test_zone_that_a_node_reports_has_no_effect(self):
        east = base.document(availability_zone={'zone': 'east'})
        stolen = host('west')
        stolen.report['zone'] = 'east'
        self.assertIn('west', filters.zone(stolen, east))

    def test_zero_touch_needs_tunnels_and_probes_through_them(self):
        wants = base.document(flavor={'zero_touch': 'preferred'})
        self.assertIsNone(filters.zero_touch(host(), base.document()))
        self.assertIsNone(filters.zero_touch(
            host(probe_through_datapath=True), wants))
        for state in {}, {'probe_through_datapath': False}:
            self.assertIn('probe_through_datapath',
                          filters.zero_touch(host(**state), wants))

    def test_newer_document_goes_to_nodes_that_know_it(self):
        document = base.document()
        today = host(document_version=spec.VERSION)
        self.assertIsNone(filters.version(today, document))
        following = spec.VERSION + 1
        with mock.patch.object(spec, 'needed_version',
                               return_value=following):
            self.assertIn(f'needs {following}: upgrade it',
                          filters.version(today, document))
            self.assertIsNone(filters.version(
                host(document_version=following), document))
        self.assertIn(filters.version, filters.ALWAYS)

    def test_nat_always_needs_nodes_with_pools(self):
        wants = base.document(flavor={'forwarding': 'nat'})
        able = {'nat': {'pools': ['198.51.100.0/28']}}
        self.assertIsNone(filters.nat(host(), base.document()))
        self.assertIsNone(filters.nat(host(**able), wants))
        self.assertIn('[nat] pools', filters.nat(host(), wants))
        self.assertIn(filters.nat, filters.ALWAYS)

    def test_each_vip_takes_table_entries(self):
        document = base.document(
            additional_vips=[{'ip_address': '2001:db8::1'}])
        self.assertEqual(2, filters.services(document, rows.LB))
        self.assertIsNone(filters.capacity(
            host(services=0, services_max=2), document))
        self.assertIsNotNone(filters.capacity(
            host(services=1, services_max=2), document))
