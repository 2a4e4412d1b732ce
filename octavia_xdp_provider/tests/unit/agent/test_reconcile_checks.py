# SPDX-License-Identifier: Apache-2.0
"""The checks file that a pass writes."""

import copy
import dataclasses
import json
import os
import pathlib
from unittest import mock

import fixtures

from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.health import monitors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling

KEY = reconciling.KEY


class TestChecks(reconciling.ReconcilerTestCase):

    def test_conditions_reach_the_checks_file(self):
        other = base.document()['pools']['pool']
        other['healthmonitor'].update(type='TCP')
        other['members'] = {'n1': dict(other['members']['m1'],
                                       protocol_port=443)}
        self.document['pools']['other'] = other
        self.document['listeners']['other'] = dict(
            self.document['listeners']['listener'], protocol_port=443,
            default_pool_id='other')
        reconciler = self.make(self.load(
            '[agent]\nwithdraw_grace = 0\nhealth_panic_percent = 50\n'
            'health_scope = load_balancer\n'))
        outcome = reconciler.reconcile(self.wanted(self.document), True)
        self.assertIsNone(outcome.failed.get('lb'))
        with open(f'{self.directory}/checks/lb.json') as file:
            document = json.load(file)
        checks_file.validate(document)
        condition, = document['conditions']
        # Both services look at the same condition, each once in its group.
        checks = {int(condition['key'], 16)}
        self.assertEqual(checks, {
            member.check for member in self.datapath.held[
                datapath.Key(base.VIP, 'TCP', 443)]})
        groups = {group['name']: group['checks']
                  for group in document['groups']}
        self.assertEqual([condition['key']], groups['other'])
        self.assertIn(condition['key'], groups['pool'])

    def test_marks_come_before_the_checks_file(self):
        marks = mock.Mock()
        marks.mark.side_effect = [7, 8]
        marks.set.side_effect = lambda: self.events.append(
            ('marks', os.path.exists(f'{self.directory}/checks/lb.json')))
        marks.written.side_effect = lambda named: self.events.append(
            ('written', [check['mark'] for check in self.checks()]))
        self.reconciler = self.make(self.conf, probes=marks)
        self.run_pass(self.document)
        self.assertEqual(('set', KEY), self.events[0])
        self.assertEqual(('marks', False), self.events[1])
        self.assertEqual(('written', {7, 8}), (
            self.events[2][0], set(self.events[2][1])))
        marks.begin.assert_called_once_with()

    def behind_a_tunnel(self):
        """One member; its check goes through its tunnel."""
        probes = mock.Mock()
        probes.mark.return_value = 7
        probes.targets.return_value = {}
        self.reconciler = self.make(self.conf, probes=probes)
        self.document['pools']['pool']['members'].pop('m2')

    def patience_with(self, **patience):
        """A pass; key of a check → seconds, as the checks file has it."""
        self.document = copy.deepcopy(self.document)
        self.document['pools']['pool']['members']['m1']['tunnel'] = {
            'address': '198.18.20.1', 'encapsulation': 'geneve', 'key': 7,
            **patience}
        self.outcome = self.run_pass(self.document)
        document = json.loads(
            pathlib.Path(self.directory, 'checks/lb.json').read_text())
        checks_file.validate(document)
        return {key: entry['seconds'] for entry in document.get('patience', ())
                for key in entry['checks']}

    def test_patience_of_a_moving_member_is_in_the_checks_file(self):
        self.behind_a_tunnel()
        self.assertEqual({}, self.patience_with())
        check, = self.checks()
        self.events.clear()
        for patience, expected in (
                ({'patience': 30}, {check['key']: 30}),
                ({'patience': 60}, {check['key']: 60}), ({}, {})):
            self.assertEqual(expected, self.patience_with(**patience))
            self.assertIsNone(self.outcome.failed.get('lb'))
            self.assertEqual([check], self.checks())
        # Services have not changed.
        self.assertEqual([], [event for event in self.events
                              if event[0] == 'set'])

    def test_checks_of_all_members_are_written(self):
        self.run_pass(self.document)
        self.assertEqual({'198.18.10.11', '198.18.10.12'},
                         {check['address'] for check in self.checks()})
        self.run_pass()
        self.assertEqual([], self.checks())

    def test_panic_threshold_makes_a_group_of_each_pool(self):
        self.run_pass(self.document)
        with open(f'{self.directory}/checks/lb.json') as file:
            self.assertEqual([], json.load(file).get('groups', []))
        self.reconciler = self.make(self.load(
            '[agent]\nwithdraw_grace = 0\nhealth_panic_percent = 40\n'))
        self.run_pass(self.document)
        with open(f'{self.directory}/checks/lb.json') as file:
            document = json.load(file)
        self.assertEqual([{
            'name': 'pool', 'panic_percent': 40,
            'checks': sorted(check['key'] for check in document['checks'])}],
            document['groups'])

    def test_marks_stay_while_the_checks_file_cannot_be_written(self):
        probes = mock.Mock()
        probes.mark.return_value = None
        self.reconciler = self.make(self.conf, probes=probes)
        with self.full():
            self.run_pass(self.document)
        probes.written.assert_not_called()
        self.run_pass(self.document)
        probes.written.assert_called_once_with(set())

    def test_refused_load_balancer_keeps_its_checks(self):
        conf = self.load('[agent]\nwithdraw_grace = 0\n'
                         'health_panic_percent = 40\n'
                         'health_scope = load_balancer\n')
        self.reconciler = self.make(conf)
        # Two monitors decide one member: a condition of two checks.
        self.document['listeners']['other'] = dict(
            self.document['listeners']['listener'], protocol_port=443,
            default_pool_id='other')
        self.document['pools']['other'] = copy.deepcopy(
            self.document['pools']['pool'])
        self.document['pools']['other']['healthmonitor']['delay'] = 9
        for member in self.document['pools']['other']['members'].values():
            member['protocol_port'] = 443
        outcome = self.run_pass(self.document)
        self.assertIsNone(outcome.failed.get('lb'))
        path = pathlib.Path(self.directory, 'checks/lb.json')
        before = path.read_text()
        document = json.loads(before)
        self.assertEqual((4, 2, 2), tuple(
            len(document[part]) for part in ('checks', 'conditions',
                                             'groups')))
        self.refuse()
        for restarted in (False, True):
            if restarted:
                self.reconciler = self.make(conf)
            for _ in range(2):
                outcome = self.run_pass(self.document)
                self.assertTrue(outcome.failed.get('lb'))
                self.assertEqual(before, path.read_text(), restarted)

    def test_refused_load_balancer_keeps_no_checks_of_others(self):
        other = base.document()
        other.update(id='other', vip_address='203.0.113.11')
        other['pools']['pool']['healthmonitor']['delay'] = 77
        self.run_pass(self.document, other)
        self.assertEqual(4, len(self.checks()))
        self.refuse()
        self.run_pass(other)
        self.assertEqual({77}, {check['delay'] for check in self.checks()})

    def test_service_that_the_datapath_refuses_keeps_its_checks(self):
        self.run_pass(self.document)
        before = {check['key'] for check in self.checks()}
        self.document['pools']['pool']['healthmonitor']['delay'] = 77
        self.datapath.full = True
        self.run_pass(self.document)
        self.assertLess(before, {check['key'] for check in self.checks()})
        self.datapath.full = False
        self.run_pass(self.document)
        self.assertEqual({77}, {check['delay'] for check in self.checks()})

    def test_checks_that_stay_have_the_patience_that_they_had(self):
        self.behind_a_tunnel()
        before = self.patience_with(patience=30)
        key, = before
        self.document['pools']['pool']['healthmonitor']['delay'] = 77
        self.datapath.full = True
        patience = self.patience_with(patience=60)
        other, = {check['key'] for check in self.checks()} - {key}
        self.assertEqual({key: 30, other: 60}, patience)
        self.assertEqual({key: 30}, self.patience_with())
        self.datapath.full = False
        self.assertEqual({}, self.patience_with())
        # A load balancer that is refused keeps all as it was.
        before = self.patience_with(patience=30)
        self.refuse()
        self.assertEqual(before, self.patience_with(patience=60))
        self.assertTrue(self.outcome.failed.get('lb'))

    def test_marks_of_checks_that_stay_are_still_named(self):
        marks = mock.Mock()
        marks.mark.side_effect = [7, 8]
        self.reconciler = self.make(self.conf, probes=marks)
        self.run_pass(self.document)
        self.refuse()
        self.run_pass(self.document)
        self.assertEqual([mock.call({7, 8})] * 2,
                         marks.written.call_args_list)

    def test_checks_file_that_cannot_be_read_does_not_stop_a_pass(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.run_pass(self.document)
        pathlib.Path(self.directory, 'checks/lb.json').write_text('{')
        self.refuse()
        self.run_pass(self.document)
        self.assertEqual([], self.checks())
        self.assertIn('no longer probed', log.output)

    def test_bad_check_fails_its_own_load_balancer_only(self):
        bad = dict(base.document(), id='bad', vip_address='203.0.113.11')
        bad['pools'] = {'pool': dict(
            bad['pools']['pool'], healthmonitor=dict(
                bad['pools']['pool']['healthmonitor'], max_retries=99))}
        outcome = self.run_pass(bad, self.document)
        self.assertIn('pools.pool.healthmonitor.max_retries',
                      outcome.failed.get('bad'))
        self.assertIsNone(outcome.failed.get('lb'))
        self.assertEqual(2, len(self.checks()))

    def test_check_that_the_checker_refuses_fails_its_own_load_balancer_only(
            self):
        bad = base.document()
        bad.update(id='bad', vip_address='203.0.113.11')
        bad['pools']['pool']['healthmonitor']['delay'] = 77
        real = monitors.check

        def check(monitor, member):
            made = real(monitor, member)
            return (dataclasses.replace(made, rise=99)
                    if monitor['delay'] == 77 else made)
        with mock.patch.object(monitors, 'check', check):
            outcome = self.run_pass(bad, self.document)
        self.assertIn('health monitor', outcome.failed.get('bad'))
        self.assertIsNone(outcome.failed.get('lb'))
        self.assertEqual(2, len(self.checks()))
