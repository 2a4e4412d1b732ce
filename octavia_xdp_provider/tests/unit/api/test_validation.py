# SPDX-License-Identifier: Apache-2.0

import pathlib

import octavia_xdp_provider
from octavia_xdp_provider.api import rules
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.unit import base

VIP_V6 = '2001:db8:100::10'


class RulesTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.tree = base.tree()
        self.pool = self.tree['pools']['pool']
        self.listener = self.tree['listeners']['listener']

    def members(self, *members):
        self.pool['members'] = {
            f'm{i}': member for i, member in enumerate(members)}

    def accepted(self):
        validation.validate(spec.document('lb', self.tree))

    def refused(self, option, *words):
        error = self.assertRaises(errors.Refused, self.accepted)
        self.assertEqual(option, error.option)
        for word in (option, *words):
            self.assertIn(word, str(error))


class TestRules(RulesTestCase):

    def test_member_port_must_be_the_listeners(self):
        self.members(base.member('198.18.10.13', protocol_port=8080))
        self.refused('protocol_port', '8080', 'member_port rewrite')
        self.tree['flavor'] = {'member_port': 'same'}
        self.refused('protocol_port')
        self.tree['flavor'] = {'member_port': 'rewrite'}
        self.accepted()

    def test_ports_of_sctp_are_nobodys_to_rewrite(self):
        self.listener['protocol'] = self.pool['protocol'] = 'SCTP'
        for flavor in ({}, {'member_port': 'rewrite'},
                       {'member_port': 'rewrite_on_member'}):
            self.tree['flavor'] = flavor
            self.members(base.member('198.18.10.13', protocol_port=8080))
            self.refused('protocol_port', '8080', 'checksum',
                         'Instead: let the member listen')
            self.members(base.member('198.18.10.13'))
            self.accepted()

    def test_any_port_without_a_listener(self):
        self.tree['listeners'] = {}
        self.members(base.member('198.18.10.13', protocol_port=8080))
        self.accepted()

    def test_rewritten_answers_show_their_listener(self):
        self.tree['flavor'] = {'member_port': 'rewrite'}
        self.tree['listeners']['other'] = dict(self.listener,
                                               protocol_port=8080)
        self.refused('protocol_port', '80 and 8080')
        # Another port of the same host shows it.
        self.tree['pools']['pool2'] = dict(self.pool, members={
            'x': base.member('198.18.10.11', protocol_port=81)})
        self.tree['listeners']['other']['default_pool_id'] = 'pool2'
        self.accepted()
        # So does another protocol.
        self.tree['pools']['pool2'] = dict(self.pool, protocol='UDP')
        self.tree['listeners']['other'].update(protocol='UDP')
        self.accepted()

    def test_address_is_unique_in_a_pool(self):
        self.members(base.member('198.18.10.13'),
                     base.member('198.18.10.13', protocol_port=81))
        self.refused('address', '198.18.10.13', 'member_port rewrite')
        self.tree['flavor'] = {'member_port': 'rewrite_on_member'}
        self.refused('address', '198.18.10.13', 'member_port rewrite')
        self.tree['flavor'] = {'member_port': 'same'}
        self.members(base.member('2001:db8::1'),
                     base.member('2001:DB8:0::1'))
        self.refused('address', 'two members')

    def test_member_is_not_the_vip(self):
        self.members(base.member(base.VIP))
        self.refused('address', base.VIP)

    def test_listener_and_pool_have_one_protocol(self):
        protocols = ('TCP', 'UDP', 'SCTP')
        for listener in protocols:
            for pool in protocols:
                self.listener['protocol'] = listener
                self.pool['protocol'] = pool
                if listener == pool:
                    self.accepted()
                else:
                    self.refused('protocol', listener, pool)

    def test_protocols_may_share_a_port(self):
        self.tree['pools']['udp'] = dict(self.pool, protocol='UDP')
        self.tree['listeners']['udp'] = dict(
            self.listener, protocol='UDP', default_pool_id='udp')
        self.accepted()
        self.tree['listeners']['udp']['default_pool_id'] = 'pool'
        self.refused('protocol', 'UDP listener', 'TCP pool')

    def test_members_beyond_the_datapaths_limit_are_refused(self):
        members = [base.member(f'198.18.{11 + i // 200}.{i % 200}')
                   for i in range(rules.MEMBERS_MAX + 1)]
        self.members(*members[:-1])
        self.accepted()
        self.members(*members)
        self.refused('members')


class TestFamilies(RulesTestCase):
    """Which addresses go with which encapsulation."""

    def outcome(self, vip, member, **flavor):
        self.tree.update(vip_address=vip, flavor=flavor)
        self.members(base.member(member))
        try:
            self.accepted()
        except errors.Refused as refused:
            self.assertEqual('address', refused.option)
            return 'refused'
        return 'accepted'

    def test_families_that_each_encapsulation_carries(self):
        addresses = {4: (base.VIP, '198.18.10.13'),
                     6: (VIP_V6, '2001:db8::13')}
        good = {
            'ipip': {(4, 4), (4, 6), (6, 4), (6, 6)},
            'gue': {(4, 4), (4, 6), (6, 4), (6, 6)},
            'gre': {(4, 4), (4, 6), (6, 4), (6, 6)},
            'dscp': {(4, 4), (6, 6)},
            'srv6': {(4, 6), (6, 6)},
        }
        for encapsulation, families in good.items():
            for vip in (4, 6):
                for member in (4, 6):
                    self.assertEqual(
                        'accepted' if (vip, member) in families
                        else 'refused',
                        self.outcome(
                            addresses[vip][0], addresses[member][1],
                            encapsulation=encapsulation,
                            **({'dscp': 1} if encapsulation == 'dscp'
                               else {})),
                        (encapsulation, vip, member))

    def test_equal_numbers_of_two_families_are_two_addresses(self):
        """The same number is another address in each family."""
        self.members(base.member('198.18.10.13'),
                     base.member('::c612:a0d'))
        self.accepted()

    def test_members_of_both_families_in_one_pool(self):
        self.members(base.member('198.18.10.13'),
                     base.member('2001:db8::13'))
        self.accepted()
        self.tree['flavor'] = {'encapsulation': 'dscp', 'dscp': 1}
        self.refused('address', '2001:db8::13', 'dscp', 'use an IPv4')

    def test_pool_is_checked_before_it_has_a_listener(self):
        self.tree.update(listeners={}, flavor={'encapsulation': 'srv6'})
        self.refused('address', 'SRv6')

    def test_members_have_different_sids(self):
        self.members(base.member('2001:db8::1:1'),
                     base.member('2001:db8::1:2'))
        self.tree['flavor'] = {'encapsulation': 'srv6'}
        self.accepted()
        self.tree['flavor']['srv6_function'] = 0xd4
        self.refused('address', '2001:db8::1:2', 'srv6_function')
        self.members(base.member('2001:db8::1:1'),
                     base.member('2001:db8::2:1'))
        self.accepted()

    def test_networks_are_of_the_vips_family(self):
        for vip, good, bad in ((base.VIP, '0.0.0.0/0', '::/0'),
                               (VIP_V6, '2001:db8::/32', '192.0.2.0/24')):
            self.tree['vip_address'] = vip
            self.listener['allowed_cidrs'] = [good]
            self.accepted()
            self.listener['allowed_cidrs'] = [good, bad]
            self.refused('allowed_cidrs', bad)

    def test_netmasks_are_of_the_vips_family(self):
        for vip, good, bad in (
                (base.VIP, '255.255.0.0', 'ffff:ffff::'),
                (VIP_V6, 'ffff:ffff::', '255.255.0.0')):
            self.tree['vip_address'] = vip
            self.pool['session_persistence'] = {
                'type': 'SOURCE_IP', 'persistence_granularity': good}
            self.accepted()
            self.pool['session_persistence'] = {
                'type': 'SOURCE_IP', 'persistence_granularity': bad}
            self.refused('session_persistence', bad)

    def test_session_persistence_needs_a_type(self):
        self.pool['session_persistence'] = {'persistence_timeout': 20}
        self.refused('session_persistence', 'type')


class TestTogether(base.TestCase):

    def test_member_is_shared_by_distinct_dscp_only(self):
        def document(flavor, *addresses):
            return spec.document('lb', {'flavor': flavor, 'pools': {'p': {
                'members': dict(enumerate(map(base.member, addresses)))}}})
        five, six = ({'encapsulation': 'dscp', 'dscp': code}
                     for code in (5, 6))
        own = document(five, '198.18.10.11', '198.18.10.12')
        self.assertTrue(rules.concerns_others(own))
        for other in (document(five, '198.18.10.13'),
                      document(six, '198.18.10.11'),
                      document({}, '198.18.10.11')):
            rules.validate_together(own, other)
            rules.validate_together(other, own)
        error = self.assertRaises(
            errors.Refused, rules.validate_together, own,
            document(five, '198.18.10.13', '198.18.10.12'))
        self.assertIn('198.18.10.12', str(error))
        self.assertIn('DSCP 5', error.for_operator)
        self.assertNotIn('DSCP 5', str(error))
        plain = document({}, '198.18.10.11')
        self.assertFalse(rules.concerns_others(plain))
        rules.validate_together(plain, document({}, '198.18.10.11'))


class TestDatapathContract(base.TestCase):
    """Rules and flavors accept the values that the library accepts."""

    def test_limits_are_those_of_the_library(self):
        header = (pathlib.Path(octavia_xdp_provider.__file__).parents[1]
                  / 'datapath/include/octavia_xdp.h').read_text()
        self.assertIn(
            f'#define OXP_MEMBERS_MAX {rules.MEMBERS_MAX} ', header)
