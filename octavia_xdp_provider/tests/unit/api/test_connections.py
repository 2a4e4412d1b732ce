# SPDX-License-Identifier: Apache-2.0
"""Limits of connections and nodes' shares of them."""

import copy

from octavia_xdp_provider.api import connections
from octavia_xdp_provider.api import translate
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.unit import base

VIP6 = '2001:db8:100::10'


NAT = {'forwarding': 'nat'}


def limited(limit=10, flavor=NAT, **fields):
    document = base.document(flavor=flavor, **fields)
    document['listeners']['listener']['connection_limit'] = limit
    return document


def shares(document, hosts):
    return [connections.share(document, document['listeners']['listener'],
                              host, vip)
            for host in hosts for vip in spec.vips(document)]


class TestShares(base.TestCase):

    def test_all_shares_are_the_limit(self):
        for limit in (1, 2, 9, 10, 11, 1000):
            for number in (1, 2, 3, 7):
                hosts = [f'node{index}' for index in range(number)]
                parts = shares(limited(limit, announcing=hosts), hosts)
                self.assertEqual(max(limit, number), sum(parts))
                self.assertLessEqual(max(parts) - min(parts), 1)
                self.assertGreaterEqual(min(parts), 1)

    def test_each_vip_has_a_part(self):
        document = limited(10, announcing=['a', 'b'], additional_vips=[
            {'ip_address': VIP6}])
        parts = shares(document, ['a', 'b'])
        self.assertEqual((4, 10), (len(parts), sum(parts)))

    def test_new_node_counts_with_its_future_share(self):
        document = limited(10, announcing=['a', 'c'])
        self.assertEqual([3], shares(document, ['b']))
        self.assertEqual([10], shares(limited(10), ['b']))

    def test_no_limit_has_no_share(self):
        self.assertEqual([0], shares(base.document(), ['a']))


class TestAnnouncing(base.TestCase):

    def announcing(self, said, before=()):
        return connections.announcing(
            limited(announcing=list(before)), said)

    def test_announcing_nodes_share_the_limit(self):
        self.assertEqual(['a', 'b'], self.announcing(
            {'b': True, 'a': True, 'c': False}))

    def test_node_without_a_report_keeps_its_state(self):
        self.assertEqual(['a', 'c'], self.announcing(
            {'a': True, 'b': None, 'c': None}, before=['c']))

    def test_all_nodes_count_before_the_first_announcement(self):
        self.assertEqual(['a', 'b'], self.announcing(
            {'a': False, 'b': None}))


class TestLimits(base.TestCase):

    def refused(self, document):
        error = self.assertRaises(errors.Refused, connections.check, document)
        self.assertEqual('connection_limit', error.option)

    def test_only_of_tcp(self):
        connections.check(limited())
        for protocol in ('UDP', 'SCTP'):
            document = limited()
            document['listeners']['listener']['protocol'] = protocol
            self.refused(document)

    def test_limit_without_nat_is_refused(self):
        self.refused(limited(flavor={}))
        connections.check(limited(None, flavor={}))

    def test_octavia_says_minus_one(self):
        self.assertEqual({'connection_limit': None}, translate.listener(
            {'connection_limit': -1}))

    def test_nodes_are_sent_those_who_announce_where_there_is_a_limit(self):
        document = limited(None, announcing=['a'])
        before = copy.deepcopy(document)
        self.assertNotIn('announcing', spec.for_node(document))
        self.assertEqual(before, document)
        sent = spec.for_node(limited(5, announcing=['a']))
        self.assertEqual((['a'], 5), (
            sent['announcing'],
            sent['listeners']['listener']['connection_limit']))
