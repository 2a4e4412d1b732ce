# SPDX-License-Identifier: Apache-2.0
"""Totals of all services' counters while services come and go."""

from octavia_xdp_provider.agent import totals
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base


def services(**packets):
    """Name → how many packets of 100 bytes, each a flow."""
    return {key: datapath.Summary((0, 1, 2), 1, 100 * number, number,
                                  packets=number)
            for key, number in packets.items()}


class TestTotals(base.TestCase):

    def setUp(self):
        super().setUp()
        self.totals = totals.Totals()

    def after(self, **packets):
        self.totals.look(services(**packets))
        return self.totals.now()

    def test_counts_before_the_start_are_not_included(self):
        self.assertEqual(totals.Total(), self.totals.now())
        self.assertEqual(totals.Total(), self.after(a=7, b=1))
        self.assertEqual(totals.Total(2, 200, 2), self.after(a=8, b=2))

    def test_services_that_come_and_go_leave_what_they_counted(self):
        self.after()
        totals = [self.after(**packets).packets for packets in (
            {'a': 5}, {'a': 6, 'b': 2}, {'b': 3}, {'b': 3}, {}, {'a': 1})]
        self.assertEqual([5, 8, 9, 9, 9, 10], totals)

    def test_recreated_service_starts_from_zero(self):
        self.after()
        self.after(a=5, b=1)
        self.assertEqual(8, self.after(a=2, b=1).packets)
        self.assertEqual(9, self.after(a=3, b=1).packets)
