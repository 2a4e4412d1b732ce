# SPDX-License-Identifier: Apache-2.0
"""Drops of a hypervisor by port and reason, while ports come and go."""

from unittest import mock

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.drops import host_drops
from octavia_xdp_provider.drops import rows
from octavia_xdp_provider.tests.unit import base

Outcome = enumerations.HostOutcome
A, B = ('11111111-1111-4111-8111-111111111111',
        '22222222-2222-4222-8222-222222222222')


class HostDropsTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.datapath = mock.Mock()
        self.drops = host_drops.HostDrops(self.datapath)

    def read(self, outcomes, ports):
        """Return {(reason, port): packets}, without those of 0."""
        self.datapath.outcomes.return_value = outcomes
        self.datapath.drops.return_value = ports
        drops = self.drops.read()
        for row in drops:
            self.assertEqual((rows.HOST, 'octavia-xdp-host', None),
                             (row.source, row.where, row.vip))
        return {(row.reason, row.port): packets
                for row, packets in drops.items() if packets}

    def test_each_drop_of_the_contract_is_a_reason(self):
        drops = [outcome for outcome in Outcome
                 if enumerations.CONTRACT[enumerations.HOST_OUTCOME][
                     outcome].word == 'dropped']
        self.assertEqual(
            {(outcome.name.removeprefix('DROP_'), None): 1 + outcome
             for outcome in drops},
            self.read({outcome: 1 + outcome for outcome in Outcome}, {}))

    def test_drops_of_ports_are_not_counted_twice(self):
        self.assertEqual(
            {('NOT_ALLOWED', A): 4, ('NOT_ALLOWED', B): 1, ('KEY', None): 7},
            self.read({Outcome.DROP_NOT_ALLOWED: 5, Outcome.DROP_KEY: 7,
                       Outcome.FLOWS_FULL: 3},
                      {(A, Outcome.DROP_NOT_ALLOWED): 4,
                       (B, Outcome.DROP_NOT_ALLOWED): 1,
                       (B, Outcome.FLOWS_FULL): 3}))

    def test_drops_of_port_stay_when_it_goes_and_comes_again(self):
        outcome = Outcome.DROP_NO_TAP
        self.read({outcome: 4}, {(A, outcome): 4})
        self.assertEqual({('NO_TAP', A): 4}, self.read({outcome: 4}, {}))
        self.assertEqual({('NO_TAP', A): 6}, self.read(
            {outcome: 6}, {(A, outcome): 2}))

    def test_packets_between_the_two_readings_decrease_no_count(self):
        outcome = Outcome.DROP_MISMATCH
        self.assertEqual({('MISMATCH', None): 5}, self.read({outcome: 5}, {}))
        self.assertEqual(
            {('MISMATCH', None): 5, ('MISMATCH', A): 2},
            self.read({outcome: 5}, {(A, outcome): 2}))
        self.assertEqual(
            {('MISMATCH', None): 6, ('MISMATCH', A): 2},
            self.read({outcome: 8}, {(A, outcome): 2}))

    def test_counts_continue_when_datapath_was_created_anew(self):
        outcome = Outcome.DROP_KEY
        self.read({outcome: 9}, {})
        self.assertEqual({('KEY', None): 11}, self.read({outcome: 2}, {}))
