# SPDX-License-Identifier: Apache-2.0
"""Limits of shared resources that are reached, as operators see them."""

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.manage import bounds
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.manage import base

PORT_ID = '5a0b5f1e-0d0f-4f2e-8a75-1f0f2a3c4d5e'


class TestBounds(base.ManageTestCase):

    def bounds(self):
        return [(row['where'], row['limit'], row['reached'])
                for row in self.listed('bounds')]

    def test_limits_that_are_not_reached_are_not_listed(self):
        self.seen('lb1', {
            'outcomes': {'forwarded': {'packets': 9, 'bytes': 900},
                         'flow_table_full': {'packets': 0, 'bytes': 0}},
            'services': 89, 'services_max': 100, 'nat': None,
            'health_checker': {'stretch_percent': 100.0}})
        self.seen('lb2', {})
        self.assertEqual([], self.bounds())

    def test_reached_limits_of_a_node_are_listed(self):
        self.seen('lb1', {
            'outcomes': {'flow_table_full': {'packets': 7, 'bytes': 700}},
            'members': 95, 'members_max': 100,
            'nat': {'share': 1000, 'projects': {'a': 950, 'b': 5}},
            'health_checker': {'stretch_percent': 150.0}})
        self.assertEqual([
            ('lb1', 'places for remembered flows',
             '7 packets (flow_table_full)'),
            ('lb1', 'table of members', '95 of 100'),
            ('lb1', 'NAT ports of project a', '950 of 1000'),
            ('lb1', 'health checks a second', 'intervals at 150 %')],
            self.bounds())

    def test_reached_limits_of_a_hypervisor_are_listed(self):
        self.store.hypervisors.register('compute1')
        self.store.host_reports.take('compute1', 1, 1, {
            'as_of': 0, 'complete': True, 'held': {}, 'gone': [],
            'counters': {}, 'state': {
                'flows_full': 3, 'half_open_evicted': 2,
                'limited_ports': {PORT_ID: {'flows_full': 1}},
                'entries': 9, 'entries_max': 10,
                'ports': 1, 'ports_max': 10}})
        self.assertEqual([
            ('compute1', 'confirmed flows', '3 packets (flows_full)'),
            ('compute1', f'confirmed flows of port {PORT_ID}',
             '1 packets (flows_full)'),
            ('compute1', 'half-open flows', '2 packets (half_open_evicted)'),
            ('compute1', 'table of entries', '9 of 10')], self.bounds())

    def test_projects_at_a_limit_are_listed(self):
        self.configure('[limits]\nproject_members = 2\n')
        self.store.load_balancers.create(unit.document())
        self.assertEqual([('project p', '[limits] project_members',
                           'at least 90 %')], self.bounds())

    def test_outcomes_are_those_of_the_datapath(self):
        for listed, outcomes in (
                (bounds._OUTCOMES, enumerations.Outcome),
                (bounds._HOST_OUTCOMES, enumerations.HostOutcome)):
            self.assertLessEqual(listed.keys(), {
                outcome.name.lower() for outcome in outcomes})
