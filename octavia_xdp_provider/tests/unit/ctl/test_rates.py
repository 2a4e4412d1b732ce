# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.ctl import rates
from octavia_xdp_provider.ctl import show
from octavia_xdp_provider.ctl import top
from octavia_xdp_provider.node import types
from octavia_xdp_provider.tests.unit import base

MEMBER = types.MemberState('10.1.0.1', 1, 0, True, True, True,
                            types.Counters(0, 0, 0), takes_flows=True)


class Sample:
    """An inspection.Sample made of {port: (packets, bytes, flows)}."""

    def __init__(self, counters):
        self.count = len(counters)
        self.names = list(counters)
        self.packets, self.bytes, self.flows = (
            [row[column] for row in counters.values()]
            for column in range(3))

    def service(self, position):
        return types.Service(
            types.Key('192.0.2.1', 'TCP', self.names[position]), position,
            11, 3, 2, 1, types.Counters(0, 0, 0))


class Node:

    def __init__(self):
        self.counters = {}
        self.drops = {}
        self.all_members = []

    def sample(self):
        return Sample(self.counters)

    def outcomes(self):
        return {outcome: types.OutcomeCounters(*counted)
                for outcome, counted in self.drops.items()}

    def members(self, key):
        return self.all_members


class TestMeter(base.TestCase):

    def setUp(self):
        super().setUp()
        self.node = Node()
        self.node.counters = {80: (10, 100, 1), 443: (5, 5000, 0)}
        self.time = 0
        self.meter = rates.Meter(self.node, lambda: self.time)

    def view(self, counters, order='packets', limit=10, seconds=2):
        self.node.counters = counters
        self.time += seconds
        return self.meter.view(order, limit)

    def test_services_are_sorted_by_the_chosen_rate(self):
        now = {80: (30, 140, 3), 443: (15, 9000, 10)}
        view = self.view(now)
        self.assertEqual([(80, 10, 20, 1), (443, 5, 2000, 5)],
                         [(row.name.port, *row[1:4]) for row in view.rows])
        self.assertEqual((15, 2020, 6), view.total[1:4])
        self.assertEqual(2, view.services)
        now = {80: (32, 140, 3), 443: (16, 9010, 11)}
        self.assertEqual([443], [row.name.port for row in self.view(
            now, 'flows', 1).rows])
        self.assertEqual([0.0, 0.0], [row.packets for row in self.view(
            now).rows])

    def test_rates_of_services_that_come_start_at_zero(self):
        view = self.view({22: (4, 4, 4), 80: (12, 100, 1)})
        self.assertEqual([(22, 2), (80, 1)],
                         [(row.name.port, row.packets) for row in view.rows])
        # made again: its counters began at zero
        view = self.view({22: (6, 4, 4), 80: (8, 100, 1)})
        self.assertEqual([(80, 4), (22, 1)],
                         [(row.name.port, row.packets) for row in view.rows])
        self.assertEqual([], self.view({}).rows)

    def test_outcomes_have_rates_and_totals_by_rate(self):
        self.node.drops = {types.Outcome.DROP_RATE: (10, 1000),
                           types.Outcome.ECHO_REPLY: (0, 0),
                           types.Outcome.PASS: (5, 500)}
        view = self.view(self.node.counters)
        self.assertEqual([('DROP_RATE', (5, 500), (10, 1000))],
                         view.outcomes)
        self.node.drops[types.Outcome.DROP_MARTIAN] = (8, 480)
        view = self.view(self.node.counters)
        self.assertEqual([('DROP_MARTIAN', (4, 240), (8, 480)),
                          ('DROP_RATE', (0, 0), (10, 1000))],
                         view.outcomes)

    def test_member_rates_start_at_zero(self):
        self.node.all_members = [MEMBER]
        self.assertEqual([0], [row.packets for row in self.meter.members(1)])
        self.time += 2
        self.node.all_members = [
            MEMBER._replace(counters=types.Counters(10, 20, 4)),
            MEMBER._replace(address='10.1.0.2')]
        self.assertEqual([(5, 10, 2), (0, 0, 0)],
                         [row[1:4] for row in self.meter.members(1)])

    def test_lines_shorten_rates_and_align_with_headers(self):
        self.node.drops = {types.Outcome.DROP_RATE: (10, 2500)}
        view = self.view({80: (2010, 1000100, 3), 443: (5, 5000, 0)})
        first, second = top.head(view, 'packets')
        self.assertIn('1.00k packets/s', first)
        self.assertIn('4.00Mbit/s', first)
        self.assertEqual(['drop_rate', '5/s', '10.0kbit/s', '10', 'in', 'all'],
                         second.split())
        line = top.service_line(view.rows[0]).split()
        self.assertEqual(['TCP', '192.0.2.1:80', '1.00k', '4.00M', '1',
                          '2/3'], line)
        self.assertEqual(len(top.HEADERS),
                         len(top.service_line(view.rows[0])))
        row = rates.Row('10.1.0.1', 1, 2, 3, MEMBER)
        self.assertIn('up, weight 1', top.member_line(row))


class TestShares(base.TestCase):

    def test_shares_are_slots_and_percent_of_now_and_weight(self):
        members = [MEMBER._replace(weight=3),
                   MEMBER._replace(address='10.1.0.2'),
                   MEMBER._replace(address='10.1.0.3', takes_flows=False)]
        now = ['10.1.0.1'] * 6 + ['10.1.0.2'] * 2
        before = ['10.1.0.3'] * 8
        self.assertEqual(
            [(6, 0, 75.0, 75.0), (2, 0, 25.0, 25.0), (0, 8, 0.0, 0.0)],
            [row[1:] for row in show.shares(members, now, before)])
        self.assertEqual([0.0], [row[4] for row in show.shares(
            members[2:], [None], [None])])

    def test_member_state_is_one_word(self):
        for changes, state in (
                ({}, 'up'), ({'admin_up': False}, 'disabled'),
                ({'healthy': False}, 'down'),
                ({'healthy': False, 'known': False}, 'unknown'),
                ({'takes_flows': False, 'weight': 0}, 'drained'),
                ({'takes_flows': False, 'backup': True}, 'standby')):
            self.assertEqual(state, output.member_state(
                MEMBER._replace(**changes)))
