# SPDX-License-Identifier: Apache-2.0
"""Counters over processes that begin at 0 and end."""

import pathlib

import fixtures

from octavia_xdp_provider.proxy.runtime import totals
from octavia_xdp_provider.tests.unit import base

KEY = 'listener/FRONTEND'


def row(flows, proxy='listener'):
    return {'pxname': proxy, 'svname': 'FRONTEND', 'stot': str(flows)}


class TestTotals(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).join('counters.json'))
        self.totals = totals.Totals(self.path)

    def flows(self):
        return self.totals.sums().get(KEY, {}).get('stot', 0)

    def test_sum_never_decreases(self):
        for step, expected in (
                (lambda: self.totals.take(1, [row(10)]), 10),
                (lambda: self.totals.take(1, [row(15)]), 15),
                (lambda: self.totals.take(2, [row(1)]), 16),
                (lambda: self.totals.take(1, [row(17)]), 18),
                (lambda: self.totals.end(1), 18),
                # One that is not known has counted nothing.
                (lambda: self.totals.end(1), 18),
                (lambda: self.totals.take(2, [row(4)]), 21),
                # Another process that got the same number.
                (lambda: self.totals.take(2, [row(3)]), 24),
                # Rows that were not asked for this time.
                (lambda: self.totals.take(2, [row(5, 'other')]), 24)):
            step()
            self.assertEqual(expected, self.flows())

    def test_another_agent_goes_on(self):
        self.totals.take(1, [row(10)])
        self.totals.end(1)
        self.totals.take(2, [row(5)])
        self.totals.save()
        self.totals = totals.Totals(self.path)
        self.assertEqual((15, {2}), (self.flows(), self.totals.processes()))
        self.totals.take(2, [row(6)])
        self.assertEqual(16, self.flows())

    def test_damaged_file_loses_counters_only(self):
        for text in ('', '[]', '{"ended": 1}', '{"ended": {}, "processes": '
                     '{"x": {}}}', '{"ended": {"a": {"b": "c"}}}'):
            self.path.write_text(text)
            self.totals = totals.Totals(self.path)
            self.totals.take(1, [row(2)])
            self.assertEqual(2, self.flows())

    def test_counters_of_removed_listeners_are_forgotten(self):
        for pid in (1, 2):
            self.totals.take(pid, [row(1), row(1, 'removed')])
        self.totals.end(1)
        self.totals.keep({'listener'})
        self.assertEqual({KEY: {'stot': 2}}, self.totals.sums())
