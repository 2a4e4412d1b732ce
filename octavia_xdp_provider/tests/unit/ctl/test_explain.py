# SPDX-License-Identifier: Apache-2.0
"""Words for recorded decisions; functional tests have the program's own."""

import dataclasses
from unittest import mock

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.ctl import explain
from octavia_xdp_provider.ctl import links
from octavia_xdp_provider.ctl import outcome as outcomes
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.node import types
from octavia_xdp_provider.tests.support.clients import CLIENT
from octavia_xdp_provider.tests.support.clients import DNS
from octavia_xdp_provider.tests.support.clients import HTTP
from octavia_xdp_provider.tests.support.clients import TCP
from octavia_xdp_provider.tests.support.clients import UDP
from octavia_xdp_provider.tests.support.clients import VIP
from octavia_xdp_provider.tests.support.clients import with_
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.ctl import recorded_node
from octavia_xdp_provider.tests.unit.ctl.recorded_node import NOBODY
from octavia_xdp_provider.tests.unit.ctl.recorded_node import run

ECHO = packet.Wanted('icmp', CLIENT, VIP)
QUIC = types.Key(VIP, 'UDP', 443)
LIMITED = types.Key(VIP, 'TCP', 81)
Outcome = types.Outcome
DROP, PASS = int(outcomes.Action.DROP), int(outcomes.Action.PASS)
PLAIN = ('SERVICE 0', 'SLOT 5 64 0 0 1 0', 'MEMBER 1', 'UPLINK 7 0 34',
         'SIZE 40 20 1500')


class ExplainCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.node = recorded_node.Node()
        self.node.add(HTTP, '10.1.0.1', '10.1.0.2')
        self.node.add(DNS, '10.1.0.3',
                      allowed=['198.51.0.0/16', '198.51.100.0/24'])
        self.node.add(QUIC, '10.1.0.1', flags=types.ServiceFlag.QUIC)
        self.node.add(LIMITED, '10.1.0.1', new_flow_rate=7,
                      connection_limit=9, flags=types.ServiceFlag.NAT)
        patch = mock.patch.object(links, 'Links', recorded_node.Links)
        patch.start()
        self.addCleanup(patch.stop)

    def explain(self, received, *decisions, **run_):
        self.node.runs = [run(*decisions, **run_)]
        explained, = explain.Explainer(self.node, 7).explain(
            [(None, received)])
        return explained

    def check(self, frame, decisions, steps, **run_):
        explained = self.explain(frame, *decisions, **run_)
        for topic, text in steps.items():
            self.assertEqual(text, dict(explained.steps).get(topic),
                             explained.text())
        return explained


class TestSteps(ExplainCase):

    def test_order_is_that_of_the_decisions_and_not_of_the_record(self):
        """The fast path's decisions are recorded when it is left."""
        explained = self.explain(with_(TCP), *reversed(PLAIN))
        self.assertEqual(
            ['packet', 'VIP', 'service', 'allowed_cidrs', 'slot', 'owner',
             'member', 'uplink', 'size'],
            [topic for topic, _ in explained.steps])
        self.assertEqual('10.1.0.2', explained.member)

    def test_what_is_recorded_twice_is_shown_once(self):
        self.assertEqual(self.explain(with_(TCP), *PLAIN).steps,
                         self.explain(with_(TCP), *PLAIN, *PLAIN).steps)

    def test_every_decision_has_words(self):
        later = with_(UDP, fragment='later', length=60)
        for kind in set(types.Decision) - {
                types.Decision.QUIC_SERVER}:  # has them with the next one
            others = [] if kind == types.Decision.SERVICE else ['SERVICE 0']
            arguments = ' 0' * len(enumerations.ARGUMENTS[kind])
            said = self.explain(later, *others, f'{kind.name}{arguments}')
            self.assertTrue(set(said.steps) - set(
                self.explain(later, *others).steps), kind)

    def test_slots_and_owners_are_described(self):
        for decision, slot, owner in (
                ('SLOT 5 64 0 0 1 0', 'not open', '10.1.0.2'),
                ('SLOT 5 64 1 1 1 0', 'open: it changes owners',
                 'now 10.1.0.2, before 10.1.0.1'),
                ('SLOT 5 64 1 0 1 0',
                 'changed: its former owner may have flows',
                 'now 10.1.0.2, before 10.1.0.1'),
                (f'SLOT 5 64 1 1 0 {NOBODY}', 'open: it changes owners',
                 'now 10.1.0.1, before nobody')):
            self.check(with_(TCP), ('SERVICE 0', decision),
                       {'slot': f'5 of 64, {slot}', 'owner': owner})

    def test_flows_of_open_slots_are_described(self):
        self.check(with_(TCP), ('SERVICE 0', 'REMEMBERED 1 3 0',
                                'TAKEN_REMEMBERED 1'),
                   {'remembered': 'with 10.1.0.2, 3 s ago, not confirmed',
                    'choice': '10.1.0.2: remembered'})
        self.check(with_(TCP), ('SERVICE 0', 'NOT_REMEMBERED',
                                f'TAKEN_FULL {NOBODY}'),
                   {'remembered': 'no',
                    'choice': 'nobody: a new flow, which cannot be '
                    'remembered'})

    def test_admission_is_described(self):
        self.check(with_(UDP), ('SERVICE 1', 'ALLOWED 1'), {
            'allowed_cidrs': '198.51.100.7 is in 198.51.100.0/24'})
        self.check(with_(UDP, source='203.0.113.1'),
                   ('SERVICE 1', 'ALLOWED 0'), {
                       'allowed_cidrs': '203.0.113.1 is in none of 2'})
        self.check(with_(TCP, destination_port=81),
                   ('SERVICE 3', 'RATE 2048'), {
                       'rate': '7 new flows per second and source; this one '
                       'may open 2 now'})
        self.check(with_(TCP, destination_port=81), ('SERVICE 3',), {
            'limit': '9 connections at once are let in here, and there are '
            'as many'}, outcome=Outcome.DROP_CONNECTION_LIMIT, action=DROP)

    def test_quic_servers_are_described(self):
        wanted = dataclasses.replace(UDP, destination_port=443)
        for decisions, text in (
                (('QUIC_SERVER 0x1020304', 'QUIC_MEMBER 0'),
                 'server ID 01020304'),
                (('QUIC_SERVER 0x1020304', 'QUIC_NOBODY'),
                 'server ID 01020304 is of no member that is up'),
                (('QUIC_NOBODY',), 'no connection ID of a member\'s')):
            self.check(with_(wanted), ('SERVICE 2', *decisions),
                       {'QUIC': text})

    def test_unknown_services_are_said_to_be_so(self):
        """Tables may be damaged, or the service made in the meantime."""
        self.check(with_(TCP), ('SERVICE 99', 'SLOT 5 64 0 0 1 0'), {
            'service': 'number 99, of which the tables know nothing: see '
            'verify', 'slot': None})

    def test_errors_name_the_flow_that_they_quote(self):
        client = ' '.join(('0', '0', '0xffff0000', '0x076433c6'))
        explained = self.check(
            with_(ECHO), (f'QUOTED 6 {0x5100409c} {client}',),
            {'protocol': 'an ICMP error about the flow TCP '
             '198.51.100.7:40000 -> 192.0.2.1:81',
             'service': 'none for TCP port 81'}, outcome=Outcome.DROP_ICMP,
            action=DROP)
        self.assertNotIn('allowed_cidrs', dict(explained.steps))

    def test_sizes_are_described(self):
        for wanted, limit, outcome, text in (
                (TCP, 1480, Outcome.SENT_TOO_BIG,
                 'the client is sent an MTU of 1480'),
                (TCP, 0, Outcome.DROP_TOO_BIG, 'no answer can be sent'),
                (dataclasses.replace(TCP, may_fragment=True), 0,
                 Outcome.DROP_TOO_BIG,
                 'without DF: dropped, and no answer is sent'),
                (dataclasses.replace(TCP, may_fragment=True), 0,
                 Outcome.PASSED_TOO_BIG, 'without DF: left to the kernel')):
            self.check(with_(wanted), ('SERVICE 0', f'TOO_BIG {limit}'),
                       {'too big': text}, outcome=outcome, action=DROP)

    def test_budgets_are_described(self):
        for answered, text in ((1, ''), (0, ', and has')):
            self.check(with_(ECHO), ('ECHO 1', f'ANSWER 1000 {answered}'), {
                'protocol': 'ICMP echo request',
                'answer': f'the node sends up to 1000 per second and CPU'
                f'{text}'}, action=PASS)


class TestOutcomes(ExplainCase):
    """Explanations from outcome and frame, without a record."""

    def test_packets_that_are_left_alone(self):
        for frame, topic, text in (
                (with_(TCP, destination='192.0.2.77'), 'VIP',
                 '192.0.2.77 is none of this node: left to the kernel'),
                (with_(TCP, destination_port=8080), 'service',
                 'none for TCP port 8080'),
                (with_(ECHO, fragment='first'), 'protocol',
                 'a fragment of ICMP is left to the kernel'),
                (with_(TCP)[:20], 'packet',
                 'the frame ends within the IPv4 header: not looked at')):
            explained = self.check(frame, (), {topic: text}, action=PASS)
            self.assertEqual(Outcome.PASS, explained.outcome)

    def test_drops(self):
        for frame, outcome, topic, text in (
                (with_(TCP)[:50], Outcome.DROP_MALFORMED, 'headers',
                 '40 bytes in all, the frame holds 36'),
                (with_(TCP), Outcome.DROP_MALFORMED, 'headers',
                 'cut short, or they contradict each other'),
                (with_(TCP, source='127.0.0.1'), Outcome.DROP_MARTIAN,
                 'source', '127.0.0.1 is no source of packets from '
                 'elsewhere'),
                (with_(UDP, destination_port=6080), Outcome.DROP_TUNNEL,
                 'protocol', 'GUE or Geneve: somebody else\'s tunnel'),
                (with_(UDP, fragment='later', length=60),
                 Outcome.DROP_FRAGMENT, 'service', 'the VIP has none for '
                 'UDP'),
                (with_(TCP), Outcome.DROP_NO_MEMBER, 'member',
                 'nobody takes it')):
            explained = self.check(frame, (), {topic: text}, outcome=outcome,
                                   action=DROP)
            self.assertEqual(outcome, explained.outcome)
            self.assertIsNone(explained.member)

    def test_outcomes_are_derived_from_action_and_counters(self):
        for run_, outcome in (
                (run(action=PASS), Outcome.PASS),
                (run(outcome=Outcome.FRAGMENT_GUESSED), Outcome.FORWARDED),
                (run(outcome=Outcome.NAT_EVICTED), Outcome.FORWARDED),
                (run(action=DROP), Outcome.DROP_INTERNAL),
                (run(outcome=Outcome.DROP_RATE, action=DROP),
                 Outcome.DROP_RATE)):
            self.assertEqual(outcome, outcomes.outcome_of(run_))

    def test_nat_has_no_outer_header(self):
        explained = self.explain(with_(TCP, destination_port=81), 'SERVICE 3',
                                 'MEMBER 0', 'NAT', frame=with_(TCP))
        self.assertEqual('10.1.0.1', explained.member)
        self.assertNotIn('\nouter ', explained.text())


class TestValue(ExplainCase):

    def test_values_for_json(self):
        sent = with_(TCP)
        value = self.explain(with_(TCP), *PLAIN, frame=sent).value()
        self.assertEqual({'step': 'member', 'result':
                          '10.1.0.2: up, weight 1'}, value['steps'][6])
        del value['steps']
        self.assertEqual({'number': None, 'outcome': 'forwarded',
                          'action': 'XDP_TX', 'member': '10.1.0.2',
                          'frame': sent}, value)

    def test_tables_that_changed_meanwhile_are_read_again(self):
        self.node.runs = [run(*PLAIN)]
        explainer = explain.Explainer(self.node, 7)
        services = [[], self.node.services(), self.node.services(),
                    self.node.services()]
        with mock.patch.object(self.node, 'services', services.__iter__(
                ).__next__):
            explained, = explainer.explain([(1, with_(TCP))])
        self.assertIn('TCP port 80', dict(explained.steps)['service'])
