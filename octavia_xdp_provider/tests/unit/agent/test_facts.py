# SPDX-License-Identifier: Apache-2.0
"""An agent's report of itself, in the form that controllers accept."""

import types
from unittest import mock

from octavia_xdp_provider.agent import facts
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning

REPORT = shape.Shape(messages.Report)


class TestFacts(planning.PlanTestCase):

    def setUp(self):
        super().setUp()
        self.tables = mock.Mock(services={
            planning.KEY: mock.Mock(bytes=100, flows=3, drops=2,
                                    active=5)})
        # of any member
        self.tables.members.return_value.get.return_value = mock.Mock(
            known=True, healthy=False)
        self.facts = facts.Facts(
            types.SimpleNamespace(plans={'lb': self.plan()}), self.tables)
        self.entries = {'lb': (5, self.document)}
        self.update()

    def update(self, ids=(), errors=None, announced=()):
        self.facts.update(self.entries, ids, errors or {},
                          frozenset(announced))
        return self.facts.held.get('lb')

    def test_controllers_take_what_is_reported(self):
        self.update(errors={'lb': 'x' * 2 * messages.TEXT_MAX},
                    announced=[base.VIP])
        _epoch, _number, report = reports.Reporter().next(reports.Facts(
            5, self.facts.held, self.facts.counters()))
        REPORT.check(report)
        self.assertEqual({'m1': 'down', 'm2': 'down'},
                         report['held']['lb']['members'])
        self.assertEqual({'lb': {'listener': {
            'bytes': 100, 'flows': 3, 'drops': 2, 'active': 5}}},
            report['counters'])

    def test_member_that_moves_is_up_until_its_new_checks_report(self):
        member = self.tables.members.return_value.get.return_value
        plan = self.plan()
        self.facts = facts.Facts(
            types.SimpleNamespace(plans={'lb': plan}), self.tables)
        for known, healthy, still, moving in (
                (True, True, 'up', 'up'), (True, False, 'down', 'down'),
                (False, True, 'unknown', 'up'),
                (False, False, 'unknown', 'unknown')):
            member.known, member.healthy = known, healthy
            for ids, expected in ((set(), still), ({'m1'}, moving)):
                plan.moving.clear()
                plan.moving.update(ids)
                self.assertEqual({'m1': expected, 'm2': still},
                                 self.update(['lb'])['members'])

    def test_flows_of_a_vip_that_is_not_announced_are_others(self):
        for announced, active in (((), 0), (('203.0.113.1',), 0),
                                  ((base.VIP,), 5)):
            self.update(announced=announced)
            self.assertEqual(
                active, self.facts.counters()['lb']['listener']['active'])

    def open_slots(self, **services):
        """:param services: of each load balancer (open slots, second chance).
        """
        plans, self.tables.services = {}, {}
        for number, (name, states) in enumerate(services.items()):
            keys = [datapath.Key(base.VIP, 'TCP', 1000 * number + port)
                    for port in range(len(states))]
            plans[name] = types.SimpleNamespace(
                services=dict.fromkeys(keys), listeners={})
            self.tables.services.update(
                (key, datapath.Summary((0, 1, 2), 1, open_slots=slots,
                                       second_chance=chance))
                for key, (slots, chance) in zip(keys, states, strict=True))
        return facts.Facts(types.SimpleNamespace(plans=plans),
                           self.tables).open_slots()

    def test_open_slots_of_load_balancers_without_a_second_chance(self):
        self.assertEqual(
            {'slots': 145, 'load_balancers': {'b': 30, 'a': 15}, 'more': 0,
             'as_of': 0},
            self.open_slots(a=[(10, False), (5, False), (7, True)],
                            b=[(30, False)], c=[(93, True)],
                            d=[(0, False)]))

    def test_load_balancers_with_most_open_slots_are_named(self):
        report = self.open_slots(**{
            f'{number}': [(number, False)]
            for number in range(1, messages.OPEN_SLOTS_MAX + 4)})
        self.assertEqual(messages.OPEN_SLOTS_MAX,
                         len(report['load_balancers']))
        self.assertEqual(3, report['more'])
        self.assertEqual(4, min(report['load_balancers'].values()))

    def test_flows_of_the_node_are_those_of_announced_vips(self):
        self.tables.services = {
            datapath.Key(address, protocol, port): mock.Mock(active=active)
            for address, protocol, port, active in (
                (base.VIP, 'TCP', 80, 5), (base.VIP, 'TCP', 443, 7),
                (base.VIP, 'UDP', 80, 11), ('203.0.113.1', 'TCP', 80, 13))}
        self.assertEqual({'TCP': 0, 'UDP': 0, 'SCTP': 0},
                         self.facts.active_flows())
        self.update(announced=[base.VIP])
        self.assertEqual({'TCP': 12, 'UDP': 11, 'SCTP': 0},
                         self.facts.active_flows())

    def test_unchanged_report_is_the_same_object(self):
        before = self.facts.held['lb']
        self.assertIs(before, self.update(['lb']))
        self.assertIsNot(before, self.update(announced=[base.VIP]))

    def test_load_balancer_is_announced_with_all_its_vips(self):
        self.document['additional_vips'] = [{'ip_address': '2001:db8:113::1'}]
        self.facts = facts.Facts(
            types.SimpleNamespace(plans={'lb': self.plan()}), self.tables)
        self.assertFalse(self.update(announced=[base.VIP])['announced'])
        self.assertTrue(self.update(
            announced=[base.VIP, '2001:db8:113::1'])['announced'])

    def test_removed_load_balancer_is_not_reported(self):
        self.entries = {}
        self.update()
        self.assertEqual({}, self.facts.held)

    def test_error_that_ends_is_not_reported_any_more(self):
        self.assertEqual('full', self.update(errors={'lb': 'full'})['error'])
        self.assertIsNone(self.update()['error'])
