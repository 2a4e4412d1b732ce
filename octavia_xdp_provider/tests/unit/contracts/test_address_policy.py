# SPDX-License-Identifier: Apache-2.0
"""Which addresses the operator lets VIPs and members have."""

import ipaddress

from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.tests.unit import base


def networks(*texts):
    return tuple(map(ipaddress.ip_network, texts))


VIPS = networks('203.0.113.0/24', '2001:db8:100::/64')
SUBNET, NETWORK = 'a-subnet', 'a-network'


def policy(**more):
    return address_policy.AddressPolicy(VIPS, networks('10.9.0.0/16'), **more)


class TestMembers(base.TestCase):

    def refused(self, word, address, **more):
        """The word is the operator's."""
        problem = policy(**more).member_problem(address)
        self.assertIsNotNone(problem, address)
        self.assertIn(word, problem[0] + problem[2])

    def test_members_lie_in_the_networks_that_are_listed(self):
        listed = networks('10.0.0.0/8', '2001:db8:200::/48')
        for address in ('10.1.2.3', '2001:db8:200::1'):
            self.assertIsNone(
                policy(member_networks=listed).member_problem(address))
        for address in ('192.168.1.1', '2001:db8:201::1'):
            self.refused('10.0.0.0/8', address, member_networks=listed)
        self.refused('none configured', '10.1.2.3', member_networks=())

    def test_denied_networks_are_taken_out_of_them(self):
        self.refused('10.9.0.0/16', '10.9.0.1',
                     member_networks=networks('10.0.0.0/8'))

    def test_networks_of_vms_are_for_those_behind_hypervisors(self):
        own = {'member_networks': networks('198.18.0.0/15'),
               'vm_networks': networks('10.0.0.0/8')}
        self.refused('10.0.0.0/8', '10.1.2.3', **own)
        self.refused('10.9.0.0/16', '10.9.0.1', **own)
        for address, is_vm in (('198.18.0.1', False), ('198.18.0.1', True),
                               ('10.1.2.3', True)):
            self.assertIsNone(policy(**own).member_problem(address, is_vm))
        for address in ('10.9.0.1', '192.168.0.1', '203.0.113.9'):
            self.assertIsNotNone(policy(**own).member_problem(address, True))

    def test_one_list_applies_without_networks_of_vms(self):
        own = policy(member_networks=networks('10.0.0.0/8'))
        for address, is_allowed in (('10.1.2.3', True), ('172.16.0.1', False)):
            self.assertEqual(is_allowed,
                             own.member_problem(address, True) is None)
            self.assertFalse(own.is_for_vms_alone(address))
        own = policy(member_networks=networks('198.18.0.0/15'),
                     vm_networks=networks('10.0.0.0/8', '198.18.0.0/16'))
        self.assertTrue(own.is_for_vms_alone('10.1.2.3'))
        self.assertFalse(own.is_for_vms_alone('198.18.0.1'))

    def test_no_member_lies_in_a_network_of_vips(self):
        for address in ('203.0.113.9', '2001:db8:100::9'):
            self.refused('network of VIPs', address)
            self.refused('network of VIPs', address,
                         member_networks=networks('0.0.0.0/0', '::/0'))

    def test_no_member_is_an_lb_node(self):
        self.refused('LB node', '198.18.1.6',
                     own_addresses=frozenset({'198.18.1.6'}))

    def test_ipv6_addresses_that_lead_to_ipv4_are_refused(self):
        everywhere = networks('0.0.0.0/0', '::/0')
        for address in (
                '::10.0.0.1', '::ffff:0:10.0.0.1', '64:ff9b::10.0.0.1',
                '64:ff9b:1::10.0.0.1', '64:ff9b:1:ffff::1', '2002:a00:1::1',
                '2001:0:a00:1::1', 'fd00::5efe:10.0.0.1',
                '2001:db8::200:5efe:a00:1', '::ffff:10.0.0.1'):
            self.refused('IPv4', address, member_networks=everywhere)
        for address in ('2001:db8::1', '2003::1', '64:ff9b:2::1',
                        '2001:1::1', '2001:db8::5eff:a00:1'):
            self.assertIsNone(policy(
                member_networks=everywhere).member_problem(address), address)


    def test_closed_addresses_have_one_refusal(self):
        """A tenant can't find out what is there by trying addresses."""
        given = [policy(own_addresses=frozenset({'10.1.2.3'}),
                        member_networks=networks('10.1.2.0/24', '10.9.0.0/16')
                        ).member_problem(address)
                 for address in ('10.1.2.3', '10.9.0.1', '10.2.0.1')]
        given.append(address_policy.closed('10.3.0.1', 'a detail'))
        given.append(policy(
            member_networks=networks('10.1.2.0/24'),
            vm_networks=networks('10.5.0.0/16')).member_problem('10.5.0.1'))
        self.assertEqual(1, len({
            why.partition(' ')[2] + instead for why, instead, _ in given}))
        self.assertEqual(5, len({detail for _, _, detail in given}))


class TestNothingOfTheOperators(base.TestCase):
    """Texts for tenants name no networks but what they have given."""

    def test_members_and_vips(self):
        own = policy(own_addresses=frozenset({'10.1.2.3'}),
                     member_networks=networks('10.0.0.0/8'),
                     vip_subnet_ids=frozenset({SUBNET}),
                     vip_network_ids=frozenset({NETWORK}))
        denied = policy(vip_denied_networks=networks('203.0.113.0/29'))
        for problem in (denied.vip_problem('203.0.113.1'),
                        own.member_problem('10.1.2.3'),
                        own.member_problem('10.9.0.1'),
                        own.member_problem('192.168.0.1'),
                        own.member_problem('203.0.113.1'),
                        own.vip_problem('192.0.2.1'),
                        own.vip_origin_problem('other', 'another')):
            self.assertNotRegex(
                ' '.join(problem[:2]),
                '/|203.0.113.0|10.0.0.0|10.9.0.0|LB node |a-subnet|a-netw')
            self.assertRegex(problem[2], r'/\d|LB node|a-subnet')


class TestVips(base.TestCase):

    def test_vip_needs_a_subnet_that_the_operator_names(self):
        for more in ({'vip_subnet_ids': frozenset({SUBNET})},
                     {'vip_network_ids': frozenset({NETWORK})}):
            self.assertIsNone(policy(**more).vip_origin_problem(
                SUBNET, NETWORK))
            problem = policy(**more).vip_origin_problem('other', 'another')
            self.assertIn('other', problem[0])
            self.assertTrue({SUBNET, NETWORK} & set(problem[2].split()))

    def test_denied_networks_are_taken_out_of_the_others(self):
        own = policy(vip_denied_networks=networks('203.0.113.0/29'))
        self.assertIsNone(own.vip_problem('203.0.113.8'))
        problem = own.vip_problem('203.0.113.7')
        self.assertIn('203.0.113.7', problem[0])
        self.assertIn('203.0.113.0/29', problem[2])

    def test_node_announces_none_of_its_own_addresses(self):
        own = policy(own_addresses=frozenset({'203.0.113.7'}))
        self.assertIn('this LB node', own.vip_problem('203.0.113.7')[2])
        self.assertIsNone(own.vip_problem('203.0.113.8'))

    def test_either_list_is_enough(self):
        both = policy(vip_subnet_ids=frozenset({SUBNET}),
                      vip_network_ids=frozenset({NETWORK}))
        self.assertIsNone(both.vip_origin_problem(SUBNET, 'another'))
        self.assertIsNone(both.vip_origin_problem('other', NETWORK))
        self.assertIsNotNone(both.vip_origin_problem('other', None))

    def test_addresses_decide_without_lists(self):
        self.assertIsNone(policy().vip_origin_problem('other', 'another'))
