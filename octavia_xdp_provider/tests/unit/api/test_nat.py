# SPDX-License-Identifier: Apache-2.0
"""Load balancers that forwarding nat allows, and nodes that can serve them."""

from octavia_xdp_provider.api import nat
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.unit import base

NAT = {'forwarding': 'nat'}


def document(**more):
    return base.document(flavor=NAT, **more)


def members(given):
    return given['pools']['pool']['members']


class TestRules(base.TestCase):

    def refused(self, option, given):
        error = self.assertRaises(errors.Refused, validation.validate, given)
        self.assertEqual(option, error.option)
        self.assertTrue(error.why and error.instead)
        # The same with packets that are wrapped is not refused for it.
        given['flavor'] = {}
        validation.validate(given)

    def test_address_may_have_several_distinct_ports(self):
        given = document()
        members(given)['m2'].update(address='198.18.10.11',
                                    protocol_port=8080)
        validation.validate(given)
        members(given)['m1'].update(protocol_port=8080)
        error = self.assertRaises(errors.Refused, validation.validate, given)
        self.assertEqual('protocol_port', error.option)

    def test_sctp_is_not_rewritten(self):
        given = document()
        given['listeners']['listener']['protocol'] = 'SCTP'
        given['pools']['pool'].update(protocol='SCTP', healthmonitor=None)
        self.refused('protocol', given)

    def test_flows_of_a_client_are_not_kept_together(self):
        given = document()
        given['pools']['pool']['lb_algorithm'] = 'SOURCE_IP'
        self.refused('lb_algorithm', given)
        given = document()
        given['pools']['pool']['session_persistence'] = {
            'type': 'SOURCE_IP', 'persistence_timeout': None,
            'persistence_granularity': None}
        self.refused('session_persistence', given)


class TestSent(base.TestCase):

    def test_nodes_are_not_told_what_they_do_anyway(self):
        sent = spec.for_node(base.document(flavor={'forwarding': 'tunnel'}))
        self.assertEqual({}, sent['flavor'])


class TestNodes(base.TestCase):

    ABLE = {'nat': {'pools': ['198.51.100.0/28']}}

    def test_pool_of_each_family_of_members_is_needed(self):
        given = document()
        self.assertIsNone(nat.node_problem(self.ABLE, given))
        members(given)['m1']['address'] = '2001:db8:18::11'
        self.assertEqual([4, 6], nat.versions(given))
        self.assertIn('no IPv6', nat.node_problem(self.ABLE, given))
        self.assertIsNone(nat.node_problem(
            {**self.ABLE, 'nat': {'pools': [
                '198.51.100.0/28', '2001:db8:0:1::/124']}}, given))

    def test_nodes_without_a_pool(self):
        for report in ({}, {'nat': None}):
            # Also before it has any members.
            for given in (document(), document(listeners={}, pools={})):
                self.assertIn('pools', nat.node_problem(report, given))
