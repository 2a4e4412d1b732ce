# SPDX-License-Identifier: Apache-2.0
"""Differences of counters, and the datapath's own."""

import enum
from unittest import mock

from octavia_xdp_provider.drops import datapath_drops
from octavia_xdp_provider.drops import rows
from octavia_xdp_provider.node import types
from octavia_xdp_provider.tests.unit import base

A, B, C = (rows.Row(rows.KERNEL, reason) for reason in 'abc')


class Outcome(enum.IntEnum):
    PASS = 0
    DROP_RATE = 1
    DROP_NO_MEMBER = 2


class LedgerTest(base.TestCase):

    def test_packets_since_last_and_first_reading_are_returned(self):
        ledger = rows.Ledger()
        self.assertEqual([(A, 3, 3)], ledger.update({A: 3}))
        self.assertEqual([(A, 4, 7)], ledger.update({A: 7}))

    def test_counters_that_restart_count_from_zero(self):
        ledger = rows.Ledger({A: 100})
        ledger.update({A: 110})
        self.assertEqual([(A, 4, 4)], ledger.update({A: 4}))
        self.assertEqual([(A, 1, 5)], ledger.update({A: 5}))

    def test_rows_that_lose_most_now_come_first(self):
        ledger = rows.Ledger()
        ledger.update({A: 50, B: 10})
        self.assertEqual([B, C, A], [lost.row for lost in ledger.update(
            {A: 50, B: 12, C: 2})])


class DatapathDropsTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.datapath = mock.Mock()
        self.drops = datapath_drops.DatapathDrops(self.datapath)

    def test_outcomes_that_are_drops_are_rows(self):
        self.datapath.outcomes.return_value = {
            outcome: types.OutcomeCounters(packets, 60 * packets)
            for outcome, packets in (
                (Outcome.PASS, 9), (Outcome.DROP_RATE, 2),
                (Outcome.DROP_NO_MEMBER, 0))}
        self.assertEqual(
            {('datapath', 'RATE'): 2, ('datapath', 'NO_MEMBER'): 0},
            {(row.source, row.reason): count
             for row, count in self.drops.read().items()})
