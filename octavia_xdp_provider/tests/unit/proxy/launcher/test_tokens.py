# SPDX-License-Identifier: Apache-2.0
"""Tokens: which are taken, and what the table of the datapath becomes."""

import ipaddress
from unittest import mock

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.proxy.launcher import namespace
from octavia_xdp_provider.proxy.launcher import tokens
from octavia_xdp_provider.tests.unit import base

NETWORK = ipaddress.ip_network('100.64.0.0/10')
MARKS = range(100, 110)


def token(address='100.64.0.1', **more):
    return tokens.Token(**{
        'address': address, 'member': '10.0.0.5', 'end': '198.18.20.1',
        'encapsulation': 'geneve', 'key': 7, **more})


class TestTable(base.TestCase):

    def table(self, wanted, held=()):
        return tokens._table(wanted, dict(held), MARKS)

    def test_token_keeps_its_mark_when_its_member_moves(self):
        first = self.table({token(), token('100.64.0.2')})
        marks = {target.vip: mark for mark, target in first.items()}
        second = self.table({token(end='198.18.20.2', key=9),
                             token('100.64.0.3')}, first)
        self.assertEqual(2, len(second))
        moved = second[marks['100.64.0.1']]
        self.assertEqual(datapath.Tunnel(
            '198.18.20.2', datapath.Encapsulation.GENEVE, 9), moved.tunnel)
        self.assertTrue(moved.is_token)

    def test_each_token_has_a_mark_of_its_own(self):
        wanted = {token(f'100.64.0.{last}') for last in range(1, 11)}
        table = self.table(wanted)
        self.assertEqual(set(MARKS), table.keys())
        self.assertEqual({target.address for target in wanted},
                         {target.vip for target in table.values()})

    def test_first_load_balancer_keeps_an_address_that_two_claim(self):
        self.assertEqual({token(), token('100.64.0.2')}, tokens.unique([
            token(), token('100.64.0.2'), token(key=8)]))


class TestFailures(base.TestCase):

    def test_failure_is_told_to_the_caller_and_tried_again(self):
        tested = tokens.Tokens(mock.Mock(), [NETWORK], '/nowhere', '/pins')
        apply = self.enterContext(mock.patch.object(tested, '_apply'))
        apply.side_effect = namespace.Failure('no route')
        for _ in range(2):
            self.assertFalse(tested.apply({token()}))
        apply.side_effect = None
        for _ in range(2):
            self.assertTrue(tested.apply({token()}))
        self.assertEqual(3, apply.call_count)
        tested.forget()
        tested.apply({token()})
        self.assertEqual(4, apply.call_count)

    def test_nothing_is_done_without_networks(self):
        tested = tokens.Tokens(mock.Mock(), [], '/nowhere', '/pins')
        with mock.patch.object(tested, '_apply') as apply:
            self.assertTrue(tested.apply(set()))
        apply.assert_not_called()
        self.assertFalse(tested.has('100.64.0.1'))
