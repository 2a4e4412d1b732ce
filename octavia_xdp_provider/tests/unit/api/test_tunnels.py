# SPDX-License-Identifier: Apache-2.0
"""Tunnels of members in the wanted state: what is refused, who gets them."""

import copy
import ipaddress

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.unit import base

GENEVE = {'address': '198.18.20.1', 'encapsulation': 'geneve', 'key': 7}
SRV6 = {'address': 'fd00:9::', 'encapsulation': 'srv6', 'key': 7}


def document(flavor=None, **tunnels):
    """m1 and m2 with the tunnels that are named by their ids."""
    result = base.document(flavor=flavor or {})
    for member, tunnel in tunnels.items():
        members(result)[member]['tunnel'] = copy.deepcopy(tunnel)
    return result


def members(result):
    return result['pools']['pool']['members']


class TestTunnels(base.TestCase):

    def refused(self, field, word, *arguments, **options):
        given = document(**options)
        error = self.assertRaises(errors.Refused, validation.validate, given,
                                  *arguments)
        self.assertEqual(f'tunnel.{field}', error.option)
        self.assertIn(word, f'{error.why} {error.detail}')
        self.assertTrue(error.instead)

    def test_keys_have_the_bits_of_their_encapsulation(self):
        validation.validate(document(m1=dict(GENEVE, key=2 ** 24 - 1)))
        validation.validate(document(m1=dict(SRV6, key=2 ** 32 - 1)))
        self.refused('key', '24 bits', m1=dict(GENEVE, key=2 ** 24))
        self.refused('key', '24 bits',
                     m1=dict(GENEVE, keys={'listener': 2 ** 24}))
        for kind in ('ipip', 'gue', 'gre'):
            self.refused('key', f'{kind} carries no key',
                         m1=dict(GENEVE, encapsulation=kind))

    def test_alternatives_need_an_encapsulation_that_names_them(self):
        for tunnel in (GENEVE, SRV6, {'address': '198.18.20.1',
                                      'encapsulation': 'gue'}):
            validation.validate(document(m1={**tunnel,
                                             'takes_alternative': True}))
        for kind in ('ipip', 'gre'):
            self.refused('takes_alternative', f'{kind} names no second',
                         m1={'address': '198.18.20.1', 'encapsulation': kind,
                             'takes_alternative': True})

    def test_sid_leaves_room_for_its_key(self):
        self.refused('address', 'last 32 bits',
                     m1=dict(SRV6, address='fd00:9::1'))
        self.refused('address', 'no IPv6 address',
                     m1=dict(SRV6, address='198.18.20.1'))

    def test_tunnel_end_cannot_be_the_vip(self):
        self.refused('address', 'the VIP itself',
                     m1=dict(GENEVE, address=base.VIP))

    def test_members_with_equal_tunnels_are_refused(self):
        self.refused('address', 'would be the same', m1=GENEVE, m2=GENEVE)
        validation.validate(document(m1=GENEVE, m2=dict(GENEVE, key=8)))
        # what decides is the listener's key
        self.refused('address', 'would be the same', m1=GENEVE,
                     m2=dict(GENEVE, key=8, keys={'listener': 7}))

    def test_listener_without_a_key_is_refused(self):
        tunnel = dict(GENEVE, keys={'other': 9})
        validation.validate(document(m1=tunnel))
        del tunnel['key']
        self.refused('keys', 'none of the listener on port 80', m1=tunnel)

    def test_tunnel_end_may_write_any_port(self):
        given = document(m1=GENEVE)
        members(given)['m1']['protocol_port'] = 8080
        validation.validate(given)
        del members(given)['m1']['tunnel']['key']
        error = self.assertRaises(errors.Refused, validation.validate, given)
        self.assertEqual('protocol_port', error.option)

    def test_one_address_may_have_several_ports_behind_keys(self):
        given = document(m1=GENEVE, m2=dict(GENEVE, key=8))
        for port, member in zip((8080, 8081), members(given).values(),
                                strict=True):
            member.update(address='192.168.0.5', protocol_port=port)
        validation.validate(given)
        members(given)['m2']['protocol_port'] = 8080
        error = self.assertRaises(errors.Refused, validation.validate, given)
        self.assertEqual('protocol_port', error.option)

    def test_flavors_are_of_members_without_a_tunnel(self):
        for flavor in ({'encapsulation': 'srv6', 'srv6_function': 212},
                       {'encapsulation': 'dscp', 'dscp': 10}):
            given = document(flavor, m1=GENEVE, m2=dict(GENEVE, key=8))
            given['vip_address'] = '2001:db8:100::10'
            given['listeners']['listener']['allowed_cidrs'] = None
            validation.validate(given)

    def test_tunnel_ends_are_in_the_operators_networks(self):
        """Addresses of members are then those of projects."""
        policy = address_policy.AddressPolicy(
            (ipaddress.ip_network('203.0.113.0/24'),),
            (ipaddress.ip_network('10.0.0.0/8'),))
        given = document(m1=GENEVE)
        members(given)['m1']['address'] = '10.1.2.3'
        validation.validate(given, policy)
        self.refused('address', '10.0.0.0/8', policy,
                     m1=dict(GENEVE, address='10.1.2.3'))
        # Probes to its own address are behind the tunnel as well.
        members(given)['m1']['monitor_address'] = '10.1.2.3'
        validation.validate(given, policy)
        members(given)['m1']['monitor_address'] = '10.1.2.4'
        error = self.assertRaises(errors.Refused, validation.validate, given,
                                  policy)
        self.assertEqual('monitor_address', error.option)


class TestWhoIsTold(base.TestCase):

    def test_nodes_read_what_they_are_sent(self):
        for more in ({}, {'takes_alternative': True}, {'patience': 30}):
            given = document(m1={**GENEVE, **more})
            sent = spec.for_node(given)
            self.assertEqual(given['pools'], validation.read(sent)['pools'])

    def test_patience_that_is_none(self):
        for value in (0, -1, 3601, 1.5, '30', None, True):
            error = self.assertRaises(
                errors.Refused, validation.validate,
                document(m1=dict(GENEVE, patience=value)), None)
            self.assertEqual('pools.pool.members.m1.tunnel.patience',
                             error.option, value)

    def test_changes_of_the_api_leave_tunnels_as_they_are(self):
        change = {'object': 'member', 'action': 'update', 'object_id': 'm1',
                  'pool_id': 'pool', 'fields': {'weight': 5}}
        given = document(m1=GENEVE)
        after = changes.apply(given, change)
        self.assertEqual(GENEVE, members(after)['m1']['tunnel'])
        replaced = changes.apply(given, {
            'object': 'member', 'action': 'replace', 'object_id': None,
            'pool_id': 'pool', 'members': {'m1': {'weight': 2}}})
        self.assertEqual(GENEVE, members(replaced)['m1']['tunnel'])
        change['fields'] = {'tunnel': GENEVE}
        error = self.assertRaises(errors.Refused, validation.check_change,
                                  change)
        self.assertEqual('tunnel', error.option)

    def test_fields_unknown_to_octavia_are_no_difference(self):
        stored = document(m1=GENEVE)
        committed = document()
        self.assertEqual([], spec.differences(stored, committed))
        before = copy.deepcopy(committed)
        self.assertEqual(stored, spec.as_committed(stored, committed))
        self.assertEqual(before, committed)

    def test_packets_are_for_the_end_of_the_tunnel(self):
        self.assertEqual({'198.18.20.1', '198.18.10.12'},
                         spec.member_addresses(document(m1=GENEVE)))
