# SPDX-License-Identifier: Apache-2.0
"""The order of a pass, which is its contract, recorded."""

import copy
import dataclasses
import errno
import ipaddress
import json
import os
import pathlib
import types
from unittest import mock

import fixtures

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.common import address_policy
from octavia_xdp_provider.common import atomic_file
from octavia_xdp_provider.common import checks_file
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import wakeup
from octavia_xdp_provider.tests.unit import base

KEY = datapath.Key(base.VIP, 'TCP', 80)
PREFIX = f'{base.VIP}/32'
NETWORK = ipaddress.ip_network('203.0.113.0/24')
NETWORK_V6 = ipaddress.ip_network('2001:db8:113::/64')
VIP_V6 = '2001:db8:113::10'
BOTH = frozenset((4, 6))
NEITHER = frozenset()


class FakeDatapath:
    """Keeps services as the library does; members are up when unchecked."""

    def __init__(self, events):
        self.held = {}
        self.given = {}
        self.events = events
        self.full = False

    def services(self):
        return [datapath.Service(
            key, 0, 13313, len(members),
            sum(state.healthy and state.admin_up for state in members), 1,
            datapath.Counters(3, 1500, 1))
            for key, members in sorted(self.held.items())]

    def members(self, key):
        return self.held[key]

    def set_services(self, wanted):
        if self.full:
            return set(), dict.fromkeys(wanted, datapath.DatapathError(
                28, 'no room for another service'))
        changed = set()
        for key, (settings, members) in wanted.items():
            before = {state.address: state
                      for state in self.held.get(key, [])}
            self.held[key] = [
                before[member.address]._replace(check=member.check)
                if member.address in before else datapath.MemberState(
                    member.address, member.weight, member.check,
                    member.admin_up, not member.check, False, None)
                for member in members]
            if (settings, members) != self.given.get(key):
                self.events.append(('set', key))
                changed.add(key)
            self.given[key] = settings, members
        return changed, {}

    def delete_services(self, keys):
        for key in keys:
            del self.held[key], self.given[key]
            self.events.append(('delete', key))

    def set_health(self, key, healthy):
        self.held[key] = [state._replace(healthy=healthy, known=True)
                          for state in self.held[key]]


class TestReconciler(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.create_tempfiles(
            [('x', '')])[0].rpartition('/')[0]
        self.conf = self.load('[agent]\nwithdraw_grace = 0\n')
        self.events = []
        self.datapath = FakeDatapath(self.events)
        self.announce = announcements.Announcements(
            self.directory, [NETWORK, NETWORK_V6])
        real = self.announce.set

        def recorded(routes):
            routes = list(routes)
            changed = real(routes)
            if changed:
                self.events.append(('announce', tuple(
                    str(route.prefix) for route in routes)))
            return changed
        self.announce.set = recorded
        self.policy = address_policy.AddressPolicy(
            (NETWORK, NETWORK_V6), ())
        self.reconciler = self.make(self.conf)
        self.document = base.document()

    def make(self, conf, **more):
        return reconcile.Reconciler(
            conf, types.SimpleNamespace(
                checks=f'{self.directory}/checks.json',
                handler_wakeup=f'{self.directory}/handler.wakeup'),
            self.datapath, self.announce, lambda: self.policy, **more)

    def wanted(self, *documents):
        return reconcile.Wanted(7, {
            document['id']: (5, document) for document in documents})

    def run_pass(self, *documents, ready=BOTH):
        self.events.clear()
        return self.reconciler.reconcile(self.wanted(*documents), ready)

    def announced(self):
        return {str(prefix) for prefix in self.announce.wanted()}

    def checks(self):
        with open(f'{self.directory}/checks.json') as file:
            return json.load(file)['checks']

    def unmonitored(self):
        self.document['pools']['pool']['healthmonitor'] = None

    def test_load_comes_before_announce(self):
        self.unmonitored()
        outcome = self.run_pass(self.document)
        self.assertEqual([('set', KEY), ('announce', (PREFIX,))],
                         self.events)
        self.assertEqual({'lb': {'generation': 5, 'error': None}},
                         outcome.synced)
        self.assertEqual(7, outcome.wanted.as_of)

    def test_result_handler_is_notified_of_changed_services(self):
        with wakeup.bind(f'{self.directory}/handler.wakeup') as receiver:
            self.run_pass(self.document)
            self.assertTrue(wakeup.drain(receiver))
            with mock.patch.object(self.datapath, 'set_services',
                                   return_value=(set(), {})):
                self.run_pass(self.document)
            self.assertFalse(wakeup.drain(receiver))

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
        self.assertIsNone(outcome.synced['lb']['error'])
        with open(f'{self.directory}/checks.json') as file:
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
            ('marks', os.path.exists(f'{self.directory}/checks.json')))
        marks.written.side_effect = lambda named: self.events.append(
            ('written', [check['mark'] for check in self.checks()]))
        self.reconciler = self.make(self.conf, probes=marks)
        self.run_pass(self.document)
        self.assertEqual(('set', KEY), self.events[0])
        self.assertEqual(('marks', False), self.events[1])
        self.assertEqual(('written', {7, 8}), (
            self.events[2][0], set(self.events[2][1])))
        marks.begin.assert_called_once_with()

    def test_withdraw_comes_before_unload(self):
        self.unmonitored()
        self.run_pass(self.document)
        self.run_pass()
        self.assertEqual([('announce', ()), ('delete', KEY)], self.events)

    def test_withdrawal_is_waited_for(self):
        self.unmonitored()
        self.run_pass(self.document)
        asked = []

        def status():
            asked.append(self.datapath.held.copy())
            done = len(asked) == 3
            return announcements.Status(frozenset() if done else frozenset(
                [ipaddress.ip_network(PREFIX)]))
        with mock.patch.object(self.announce, 'status', status):
            self.run_pass()
        self.assertEqual(3, len(asked))
        self.assertTrue(all(KEY in held for held in asked))

    def test_not_announced_until_a_member_is_up(self):
        self.run_pass(self.document)
        self.assertEqual(set(), self.announced())
        self.datapath.set_health(KEY, True)
        self.reconciler.announce(BOTH)
        self.assertEqual({PREFIX}, self.announced())
        self.datapath.set_health(KEY, False)
        self.reconciler.announce(BOTH)
        self.assertEqual(set(), self.announced())

    def test_not_ready_announces_nothing_new(self):
        self.unmonitored()
        self.run_pass(self.document, ready=NEITHER)
        self.assertEqual(set(), self.announced())
        self.reconciler.announce(BOTH)
        self.reconciler.announce(NEITHER)
        self.assertEqual({PREFIX}, self.announced())

    def test_number_of_slots_is_the_nodes_option(self):
        self.run_pass(self.document)
        self.assertEqual(13313, self.datapath.given[KEY][0].slots)

    def test_only_what_can_be_sent_on_is_newly_announced(self):
        self.unmonitored()
        other = dict(base.document(vip_address=VIP_V6), id='other')
        other['pools']['pool'].update(healthmonitor=None, members={
            'm': dict(self.document['pools']['pool']['members']['m1'],
                      address='2001:db8:10::1')})
        prefix = f'{VIP_V6}/128'
        self.run_pass(self.document, other, ready=frozenset((4,)))
        self.assertEqual({PREFIX}, self.announced())
        self.reconciler.announce(frozenset((6,)))
        self.assertEqual({PREFIX, prefix}, self.announced())
        # The VIP's own family does not matter: outer packets are sent.
        other['pools']['pool']['members']['m']['address'] = '198.18.10.13'
        self.run_pass()
        self.run_pass(other, ready=frozenset((6,)))
        self.assertEqual(set(), self.announced())
        self.reconciler.announce(frozenset((4,)))
        self.assertEqual({prefix}, self.announced())

    def test_next_hop_of_ipv6_vips(self):
        self.unmonitored()
        other = dict(base.document(vip_address=VIP_V6), id='other')
        other['pools']['pool']['healthmonitor'] = None
        self.reconciler = self.make(self.load(
            '[agent]\nwithdraw_grace = 0\nnext_hop_v6 = 2001:db8:1::6\n'))
        self.run_pass(self.document, other)
        self.assertEqual(
            {PREFIX: None, f'{VIP_V6}/128': '2001:db8:1::6'},
            {str(prefix): route.next_hop and str(route.next_hop)
             for prefix, route in self.announce.wanted().items()})

    def test_restart_amid_an_upgrade_withdraws_nothing(self):
        """What an older agent wrote is read before anything is known."""
        self.unmonitored()
        self.run_pass(self.document)
        pathlib.Path(self.directory, announcements.FILE_NAME).write_text(
            json.dumps({'version': 1, 'announcements': [
                {'prefix': PREFIX, 'next_hop': 'self'}]}))
        self.reconciler = self.make(self.conf)
        self.events.clear()
        self.reconciler.announce(NEITHER)
        self.run_pass(self.document, ready=NEITHER)

        self.assertEqual({PREFIX}, self.announced())
        self.assertEqual([], [event for event in self.events
                              if event[0] == 'announce'])

    def test_restart_with_a_file_that_is_unknown_withdraws_nothing(self):
        self.unmonitored()
        self.run_pass(self.document)
        file = pathlib.Path(self.directory, announcements.FILE_NAME)
        file.write_text('{"version": 99}')
        self.reconciler = self.make(self.conf)
        with mock.patch.object(self.announce, 'status', lambda: (
                announcements.Status(frozenset([
                    ipaddress.ip_network(PREFIX)])))):
            self.reconciler.announce(NEITHER)

        self.assertIn(ipaddress.ip_network(PREFIX),
                      announcements.decode(file.read_bytes()))

    def test_an_address_in_another_spelling(self):
        self.unmonitored()
        self.document['vip_address'] = '2001:DB8:113:0::10'
        self.run_pass(self.document)
        self.assertEqual([KEY._replace(address=VIP_V6)],
                         list(self.datapath.held))
        self.policy = address_policy.AddressPolicy(
            (NETWORK_V6,), (ipaddress.ip_network('198.18.0.0/15'),),
            frozenset())
        self.run_pass(self.document)
        self.assertEqual({f'{VIP_V6}/128'}, self.announced())

    def test_admin_down_withdraws(self):
        self.unmonitored()
        self.run_pass(self.document)
        self.document['admin_state_up'] = False
        outcome = self.run_pass(self.document)
        self.assertEqual([('announce', ()), ('delete', KEY)], self.events)
        self.assertIsNone(outcome.synced['lb']['error'])

    def test_one_of_two_listeners_goes_without_withdrawal(self):
        self.unmonitored()
        self.document['listeners']['udp'] = dict(
            self.document['listeners']['listener'], protocol='UDP',
            default_pool_id='udp')
        self.document['pools']['udp'] = dict(
            self.document['pools']['pool'], protocol='UDP')
        self.run_pass(self.document)
        self.assertEqual(2, len(self.datapath.held))
        del self.document['listeners']['udp']
        self.run_pass(self.document)
        self.assertIn(('delete', KEY._replace(protocol='UDP')), self.events)
        self.assertEqual({PREFIX}, self.announced())
        self.assertNotIn('announce', [event[0] for event in self.events])

    def test_checks_of_all_members_are_written(self):
        self.run_pass(self.document)
        self.assertEqual({'198.18.10.11', '198.18.10.12'},
                         {check['address'] for check in self.checks()})
        self.run_pass()
        self.assertEqual([], self.checks())

    def test_panic_threshold_makes_a_group_of_each_pool(self):
        self.run_pass(self.document)
        with open(f'{self.directory}/checks.json') as file:
            self.assertEqual([], json.load(file).get('groups', []))
        self.reconciler = self.make(self.load(
            '[agent]\nwithdraw_grace = 0\nhealth_panic_percent = 40\n'))
        self.run_pass(self.document)
        with open(f'{self.directory}/checks.json') as file:
            document = json.load(file)
        self.assertEqual([{
            'name': 'pool', 'panic_percent': 40,
            'checks': sorted(check['key'] for check in document['checks'])}],
            document['groups'])

    def full(self):
        """A run directory in which no file can be replaced."""
        return mock.patch.object(
            atomic_file, 'replace',
            side_effect=OSError(errno.ENOSPC, 'No space left on device'))

    def test_vip_that_cannot_be_withdrawn_keeps_its_services(self):
        self.unmonitored()
        self.run_pass(self.document)
        with self.full():
            self.run_pass()
            self.assertEqual([], self.events)
        self.assertIn(KEY, self.datapath.held)
        self.run_pass()
        self.assertEqual([('announce', ()), ('delete', KEY)], self.events)

    def test_services_are_set_where_no_file_can_be_written(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.unmonitored()
        with self.full():
            outcomes = [self.run_pass(self.document) for _ in range(3)]
        self.assertIn(KEY, self.datapath.held)
        for outcome in outcomes:
            self.assertIn('cannot be written: No space left on device',
                          outcome.synced[self.document['id']]['error'])
        # One line for each file, however often it is tried.
        self.assertEqual(2, log.output.count('No space left on device'))

    def test_files_are_written_as_soon_as_they_can_be(self):
        self.unmonitored()
        with self.full():
            self.run_pass(self.document)
            self.reconciler.announce(BOTH)
            self.assertEqual({'announcements', 'checks'},
                             self.reconciler.file_errors.keys())
        outcome = self.run_pass(self.document)
        self.assertIsNone(outcome.synced[self.document['id']]['error'])
        self.assertEqual({}, self.reconciler.file_errors)
        self.assertEqual({PREFIX}, self.announced())

    def test_marks_stay_while_the_checks_file_cannot_be_written(self):
        probes = mock.Mock()
        probes.mark.return_value = None
        self.reconciler = self.make(self.conf, probes=probes)
        with self.full():
            self.run_pass(self.document)
        probes.written.assert_not_called()
        self.run_pass(self.document)
        probes.written.assert_called_once_with(set())

    def test_a_refused_load_balancer_does_not_stop_the_others(self):
        self.unmonitored()
        bad = dict(base.document(), id='bad', vip_address='192.0.2.1')
        outcome = self.run_pass(bad, self.document)
        self.assertIn('vip_address', outcome.synced['bad']['error'])
        self.assertIsNone(outcome.synced['lb']['error'])
        self.assertEqual({PREFIX}, self.announced())

    def test_a_refused_change_keeps_what_is_there(self):
        self.unmonitored()
        self.run_pass(self.document)
        self.reconciler._policy = lambda: address_policy.AddressPolicy(
            (NETWORK,), (ipaddress.ip_network('198.18.0.0/15'),),
            frozenset())
        outcome = self.run_pass(self.document)
        self.assertIn('address', outcome.synced['lb']['error'])
        self.assertIn(KEY, self.datapath.held)
        self.assertEqual({PREFIX}, self.announced())

    def refuse(self):
        """Members are in a denied network from now on."""
        self.policy = address_policy.AddressPolicy(
            (NETWORK, NETWORK_V6), (ipaddress.ip_network('198.18.0.0/15'),))

    def test_a_refused_load_balancer_keeps_its_checks(self):
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
        self.assertIsNone(outcome.synced['lb']['error'])
        path = pathlib.Path(self.directory, 'checks.json')
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
                self.assertTrue(outcome.synced['lb']['error'])
                self.assertEqual(before, path.read_text(), restarted)

    def test_checks_of_a_refused_load_balancer_go_with_it(self):
        self.run_pass(self.document)
        self.refuse()
        self.run_pass(self.document)
        self.assertEqual(2, len(self.checks()))
        self.run_pass()
        self.assertEqual([], self.checks())

    def test_a_refused_load_balancer_keeps_no_checks_of_others(self):
        other = base.document()
        other.update(id='other', vip_address='203.0.113.11')
        other['pools']['pool']['healthmonitor']['delay'] = 77
        self.run_pass(self.document, other)
        self.assertEqual(4, len(self.checks()))
        self.refuse()
        self.run_pass(other)
        self.assertEqual({77}, {check['delay'] for check in self.checks()})

    def test_a_service_that_the_datapath_refuses_keeps_its_checks(self):
        self.run_pass(self.document)
        before = {check['key'] for check in self.checks()}
        self.document['pools']['pool']['healthmonitor']['delay'] = 77
        self.datapath.full = True
        self.run_pass(self.document)
        self.assertLess(before, {check['key'] for check in self.checks()})
        self.datapath.full = False
        self.run_pass(self.document)
        self.assertEqual({77}, {check['delay'] for check in self.checks()})

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
        pathlib.Path(self.directory, 'checks.json').write_text('{')
        self.refuse()
        self.run_pass(self.document)
        self.assertEqual([], self.checks())
        self.assertIn('no longer probed', log.output)

    def test_a_bad_check_fails_its_own_load_balancer_only(self):
        bad = dict(base.document(), id='bad', vip_address='203.0.113.11')
        bad['pools'] = {'pool': dict(
            bad['pools']['pool'], healthmonitor=dict(
                bad['pools']['pool']['healthmonitor'], max_retries=99))}
        outcome = self.run_pass(bad, self.document)
        self.assertIn('pools.pool.healthmonitor.max_retries',
                      outcome.synced['bad']['error'])
        self.assertIsNone(outcome.synced['lb']['error'])
        self.assertEqual(2, len(self.checks()))

    def test_a_check_that_the_checker_refuses_fails_its_own_only(self):
        bad = base.document()
        bad.update(id='bad', vip_address='203.0.113.11')
        bad['pools']['pool']['healthmonitor']['delay'] = 77
        real = forwarding.check

        def check(monitor, member):
            made = real(monitor, member)
            return (dataclasses.replace(made, rise=99)
                    if monitor['delay'] == 77 else made)
        with mock.patch.object(forwarding, 'check', check):
            outcome = self.run_pass(bad, self.document)
        self.assertIn('health monitor', outcome.synced['bad']['error'])
        self.assertIsNone(outcome.synced['lb']['error'])
        self.assertEqual(2, len(self.checks()))

    def test_a_document_of_a_newer_version_changes_nothing(self):
        self.unmonitored()
        self.run_pass(self.document)
        newer = copy.deepcopy(self.document)
        newer.update(version=2, additional_vips=['203.0.113.12'])
        newer['admin_state_up'] = False
        outcome = self.run_pass(newer)
        for word in ('version', '2 is newer than 1', 'additional_vips',
                     'upgrade'):
            self.assertIn(word, outcome.synced['lb']['error'])
        self.assertIn(KEY, self.datapath.held)
        self.assertEqual({PREFIX}, self.announced())
        self.assertEqual([], self.events)

    def test_a_document_that_names_no_vip_removes_nothing(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.unmonitored()
        self.run_pass(self.document)
        for bad in ({}, [], None, {'version': 1, 'vip_address': 5}):
            outcome = self.reconciler.reconcile(
                reconcile.Wanted(8, {'lb': (6, bad)}), BOTH)
            self.assertTrue(outcome.synced['lb']['error'], bad)
            self.assertIn(KEY, self.datapath.held)
            self.assertEqual({PREFIX}, self.announced())
        # Said once, however long it lasts, and once again after an end.
        text = 'The document of load balancer lb names no address'
        self.assertEqual(1, log.output.count(text))
        self.run_pass(self.document)
        self.reconciler.reconcile(reconcile.Wanted(8, {'lb': (6, {})}), BOTH)
        self.assertEqual(2, log.output.count(text))

    def test_a_full_datapath_is_reported(self):
        self.datapath.full = True
        outcome = self.run_pass(self.document)
        self.assertIn('no room', outcome.synced['lb']['error'])

    def test_a_second_pass_changes_nothing(self):
        self.unmonitored()
        self.run_pass(self.document)
        self.run_pass(self.document)
        self.assertEqual([], self.events)

    def test_members_are_reported_with_their_states(self):
        outcome = self.run_pass(self.document)
        self.assertEqual({'lb': {'m1': 'unknown', 'm2': 'unknown'}},
                         self.reconciler.members(outcome))
        self.datapath.set_health(KEY, False)
        self.assertEqual({'lb': {'m1': 'down', 'm2': 'down'}},
                         self.reconciler.members(outcome))

    def test_counters_are_those_of_each_listener(self):
        outcome = self.run_pass(self.document)
        self.assertEqual({'lb': {'listener': {'bytes': 1500, 'flows': 1}}},
                         self.reconciler.counters(outcome))
