# SPDX-License-Identifier: Apache-2.0
"""The order of a pass, which is its contract, recorded."""

import ipaddress
import json
import pathlib
from unittest import mock

import fixtures

from octavia_xdp_provider.agent import recheck
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import wakeup
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling

KEY = reconciling.KEY
PREFIX = reconciling.PREFIX
NETWORK_V6 = reconciling.NETWORK_V6
VIP_V6 = reconciling.VIP_V6
BOTH = reconciling.BOTH
NEITHER = reconciling.NEITHER


class TestReconciler(reconciling.ReconcilerTestCase):

    def test_load_comes_before_announce(self):
        self.unmonitored()
        outcome = self.run_pass(self.document)
        self.assertEqual([('set', KEY), ('announce', (PREFIX,))],
                         self.events)
        self.assertEqual({}, outcome.failed)
        self.assertEqual(7, outcome.wanted.as_of)
        self.run_pass(self.document)
        self.assertEqual([], self.events)

    def test_open_slots_are_as_of_the_last_pass_that_ended(self):
        self.assertEqual(0, self.reconciler.facts.open_slots()['as_of'])
        self.unmonitored()
        seen = []
        announce = self.reconciler._announce_tables
        with mock.patch.object(
                self.reconciler, '_announce_tables', lambda ready: (
                    seen.append(self.reconciler.facts.open_slots()['as_of']),
                    announce(ready))):
            self.run_pass(self.document)
        self.assertEqual([0, 7], [*seen,
                                  self.reconciler.facts.open_slots()['as_of']])

    def test_result_handler_is_notified_of_changed_services(self):
        with wakeup.bind(f'{self.directory}/handler.wakeup') as receiver:
            self.run_pass(self.document)
            self.assertTrue(wakeup.drain(receiver))
            with mock.patch.object(self.datapath, 'set_services',
                                   return_value=(set(), {})):
                self.run_pass(self.document)
            self.assertFalse(wakeup.drain(receiver))

    def test_vip_is_withdrawn_before_another_is_set(self):
        self.unmonitored()
        self.run_pass(self.document)
        other = dict(base.document(vip_address='203.0.113.11'), id='other')
        other['pools']['pool']['healthmonitor'] = None
        self.run_pass(other)
        self.assertEqual(
            [('announce', ()),
             ('set', datapath.Key('203.0.113.11', 'TCP', 80)),
             ('delete', KEY), ('announce', ('203.0.113.11/32',))],
            self.events)

    def set_clock(self):
        self.now = 1000.0
        self.useFixture(fixtures.MonkeyPatch(
            'time.monotonic', lambda: self.now))
        self.reconciler = self.make(self.load(
            '[agent]\nwithdraw_grace = 0.5\n'))
        self.unmonitored()

    def test_services_go_a_while_after_the_withdrawal(self):
        self.set_clock()
        self.run_pass(self.document)
        before = self.reconciler.held['lb']
        self.assertIsNone(self.reconciler.leaving_s())
        self.run_pass()
        self.assertEqual([('announce', ())], self.events)
        self.assertEqual(0.5, self.reconciler.leaving_s())
        # Nothing else waits for it, nor is it announced again.
        other = dict(base.document(vip_address='203.0.113.11'), id='other')
        self.now += 0.4
        self.run_pass(other)
        self.reconciler.announce(BOTH)
        self.assertIn(('set', datapath.Key('203.0.113.11', 'TCP', 80)),
                      self.events)
        self.assertNotIn(PREFIX, self.announced())
        self.assertNotIn('delete', [event[0] for event in self.events])
        # Until then it is reported as it was.
        self.assertEqual(before, self.reconciler.held['lb'])
        self.now += 0.1
        self.assertEqual(0.0, self.reconciler.leaving_s())
        self.run_pass(other)
        self.assertEqual([('delete', KEY)], self.events)
        self.assertEqual(['other'], list(self.reconciler.held))
        self.assertIsNone(self.reconciler.leaving_s())

    def test_disabled_load_balancer_is_reported_after_its_services_are_deleted(
            self):
        self.set_clock()
        self.run_pass(self.document)
        self.document['admin_state_up'] = False
        off = self.wanted()._replace(documents={
            'lb': (6, self.document)})
        self.reconciler.reconcile(off, BOTH)
        self.assertEqual(5, self.reconciler.held['lb']['generation'])
        self.now += 0.5
        self.reconciler.reconcile(off, BOTH)
        self.assertEqual(6, self.reconciler.held['lb']['generation'])

    def test_load_balancer_wanted_again_at_once_stays(self):
        self.set_clock()
        self.run_pass(self.document)
        self.run_pass()
        self.run_pass(self.document)
        self.assertIsNone(self.reconciler.leaving_s())
        self.now += 0.5
        self.run_pass(self.document)
        self.assertIn(PREFIX, self.announced())
        self.assertNotIn('delete', [event[0] for event in self.events])

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
        # The last one is for the report.
        self.assertEqual([True, True, True, False],
                         [KEY in held for held in asked])

    def test_vip_is_announced_once_a_member_is_up(self):
        self.run_pass(self.document)
        self.assertEqual(set(), self.announced())
        self.datapath.set_health(KEY, True)
        self.reconciler.announce(BOTH)
        self.assertEqual({PREFIX}, self.announced())
        self.datapath.set_health(KEY, False)
        self.reconciler.announce(BOTH)
        self.assertEqual(set(), self.announced())

    def test_nothing_new_is_announced_without_uplinks(self):
        self.unmonitored()
        self.run_pass(self.document, ready=NEITHER)
        self.assertEqual(set(), self.announced())
        self.reconciler.announce(BOTH)
        self.reconciler.announce(NEITHER)
        self.assertEqual({PREFIX}, self.announced())

    def test_number_of_slots_is_the_nodes_option(self):
        self.run_pass(self.document)
        self.assertEqual(0, self.datapath.given[KEY][0].slots)
        self.reconciler = self.make(self.load(
            '[agent]\nwithdraw_grace = 0\n[datapath]\nslots = 13313\n'))
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

    def test_restart_withdraws_nothing(self):
        """A new agent reads its predecessor's announcements first."""
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

    def test_vip_in_another_spelling_is_normalized(self):
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
        self.assertIsNone(outcome.failed.get('lb'))

    def test_removing_one_of_two_listeners_withdraws_nothing(self):
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

    def test_members_are_reported_with_their_states(self):
        self.run_pass(self.document)
        self.assertEqual({'lb': {'m1': 'unknown', 'm2': 'unknown'}},
                         self.reconciler.members())
        self.datapath.set_health(KEY, False)
        self.assertEqual({'lb': {'m1': 'down', 'm2': 'down'}},
                         self.reconciler.members())

    def test_vip_is_withdrawn_without_a_recheck(self):
        self.unmonitored()
        asked = mock.Mock(spec=recheck.Recheck, allows_all=False)
        asked.allows.return_value = True
        self.reconciler = self.make(self.conf, recheck=asked)
        self.run_pass(self.document)
        self.assertEqual({PREFIX}, self.announced())
        asked.allows.return_value = False
        self.reconciler.announce(BOTH)
        self.assertEqual(set(), self.announced())
        self.assertEqual(mock.call(KEY.address, True, {4}, frozenset()),
                         asked.allows.call_args)
        self.assertEqual(asked.begin.call_count, asked.end.call_count)

    def test_vip_is_rechecked_by_the_checks_of_its_members(self):
        asked = mock.Mock(spec=recheck.Recheck, allows_all=False)
        self.reconciler = self.make(self.conf, recheck=asked)
        self.run_pass(self.document)
        self.datapath.set_health(KEY, True)
        self.reconciler.announce(BOTH)
        keys = {check['key'] for check in self.checks()}
        self.assertEqual(keys, asked.allows.call_args.args[3])

    def test_services_of_an_unknown_plan_are_not_rechecked(self):
        """Those of a predecessor, before anything is known."""
        self.unmonitored()
        self.run_pass(self.document)
        asked = mock.Mock(spec=recheck.Recheck, allows_all=False)
        self.reconciler = self.make(self.conf, recheck=asked)
        self.reconciler.announce(NEITHER)
        asked.allows.assert_not_called()
        self.assertEqual({PREFIX}, self.announced())
