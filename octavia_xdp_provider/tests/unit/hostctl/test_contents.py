# SPDX-License-Identifier: Apache-2.0
"""Differences are named, and what only looks different is none."""

from octavia_xdp_provider.host import types
from octavia_xdp_provider.hostctl import contents
from octavia_xdp_provider.tests.unit import base

GROUP = '33333333-3333-4333-8333-333333333333'


class TestRules(base.TestCase):

    def differences(self, wanted, held):
        return list(contents.of_rules(wanted, held, {9: GROUP}))

    def test_equal_text_in_another_form_is_no_difference(self):
        self.assertEqual([], self.differences(
            [types.Rule(4, 'tcp', (80, 80), '10.1.2.3/8'),
             types.Rule(6), types.Rule(4, 'udp', address_set=9),
             types.Rule(6, remote='2001:DB8::/32')],
            [types.Rule(4, 'udp', address_set=9),
             types.Rule(6, remote='2001:db8::/32'),
             types.Rule(6, remote='::/0'),
             types.Rule(4, 'tcp', (80, 80), '10.0.0.0/8')]))

    def test_replaced_entry_is_named(self):
        self.assertEqual([
            'the rule "tcp to ports 80 from 10.0.0.0/8 (IPv4)" is wanted, '
            'and not there',
            'the rule "any protocol to ports 0-65535 from group '
            f'{GROUP} (IPv6)" is there, and not wanted'],
            self.differences(
                [types.Rule(4, 'tcp', (80, 80), '10.0.0.0/8')],
                [types.Rule(6, address_set=9)]))

    def test_number_of_equal_ones_counts(self):
        self.assertEqual(1, len(self.differences(
            [types.Rule(4)], [types.Rule(4), types.Rule(4)])))


class TestSets(base.TestCase):

    def differences(self, wanted, held):
        return list(contents.of_sets(wanted, {GROUP: 9}.get, held))

    def test_equal_sets_are_no_difference_however_written(self):
        self.assertEqual([], self.differences(
            {GROUP: ['10.0.0.5/32', '2001:DB8::/64']},
            {9: {'10.0.0.5/32', '2001:db8::/64'}}))
        self.assertEqual([], self.differences({GROUP: []}, {}))

    def test_each_way_and_without_a_number(self):
        (key, missing), (_, more), (other, unknown) = self.differences(
            {GROUP: [f'10.0.0.{number}/32' for number in range(5)]},
            {9: {'10.9.0.0/16'}, 4: {'10.8.0.0/16'}})
        self.assertEqual((GROUP, ''), (key, other))
        self.assertIn('missing: 10.0.0.0/32, 10.0.0.1/32, 10.0.0.2/32 and 2 '
                      'more', missing)
        self.assertIn('not wanted: 10.9.0.0/16', more)
        self.assertIn('number 4', unknown)
        self.assertEqual(1, len(self.differences({'new': ['10.0.0.0/8']},
                                                 {})))


class TestHost(base.TestCase):

    def test_networks_of_hypervisors_that_differ(self):
        common = {'networks': [], 'peers': ['10.2.0.0/16']}
        self.assertEqual([], list(contents.of_peers(
            common, {'10.2.0.0/16'})))
        text, = contents.of_peers(common, set())
        self.assertIn('of hypervisors: networks that are missing: '
                      '10.2.0.0/16', text)

    def test_networks_of_hypervisors_of_whom_nobody_spoke(self):
        for common in (None, {'networks': [], 'peers': []}):
            self.assertEqual([], list(contents.of_peers(common, set())))
            text, = contents.of_peers(common, {'10.2.0.0/16'})
            self.assertIn('10.2.0.0/16', text)

    def test_networks_of_proxy_nodes_that_differ(self):
        common = {'networks': [], 'peers': [], 'proxies': ['10.3.0.0/16']}
        self.assertEqual([], list(contents.of_proxies(
            common, {'10.3.0.0/16'})))
        text, = contents.of_proxies(common, set())
        self.assertIn('of proxy nodes: networks that are missing: '
                      '10.3.0.0/16', text)
        for common in (None, {'networks': [], 'peers': []}):
            self.assertEqual([], list(contents.of_proxies(common, set())))

    def test_networks_of_lb_nodes_that_differ(self):
        common = {'networks': ['192.0.2.0/24'], 'peers': []}
        self.assertEqual([], list(contents.of_networks(
            common, {'192.0.2.0/24'})))
        self.assertEqual(
            ['of LB nodes: networks that are missing: 192.0.2.0/24',
             'of LB nodes: networks that are not wanted: 10.8.0.0/16'],
            list(contents.of_networks(common, {'10.8.0.0/16'})))
        text, = contents.of_networks(None, {'192.0.2.0/24'})
        self.assertIn('no controller', text)

    def test_settings_that_differ_are_described(self):
        wanted = types.Settings(2, '192.0.2.1', None, '2001:DB8::')
        self.assertEqual([], list(contents.of_settings(
            wanted, types.Settings(2, '192.0.2.1', None, '2001:db8::',
                                   tcp_idle=7440))))
        self.assertEqual(
            ['the interface by which answers leave is none, and 2 is wanted',
             'the IPv6 address for Geneve is 2001:db8::7, and none is '
             'wanted'], list(contents.of_settings(wanted, types.Settings(
                 0, '192.0.2.1', '2001:db8::7', '2001:db8::'))))
