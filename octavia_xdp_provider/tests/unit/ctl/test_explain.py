# SPDX-License-Identifier: Apache-2.0
"""Explanations by the packet model from recorded tables."""

import dataclasses
from unittest import mock

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from octavia_xdp_provider.ctl import explain
from octavia_xdp_provider.ctl import links
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.node import types
from octavia_xdp_provider.packet_model import quic
from octavia_xdp_provider.packet_model import state
from octavia_xdp_provider.tests.support.clients import CLIENT
from octavia_xdp_provider.tests.support.clients import DNS
from octavia_xdp_provider.tests.support.clients import HTTP
from octavia_xdp_provider.tests.support.clients import HTTP_V6
from octavia_xdp_provider.tests.support.clients import TCP
from octavia_xdp_provider.tests.support.clients import TCP_V6
from octavia_xdp_provider.tests.support.clients import UDP
from octavia_xdp_provider.tests.support.clients import VIP
from octavia_xdp_provider.tests.support.clients import VIP_V6
from octavia_xdp_provider.tests.support.clients import with_
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.ctl import recorded_node

ECHO = packet.Wanted('icmp', CLIENT, VIP)
Outcome = state.Outcome


class ExplainCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.node = recorded_node.Node()
        self.node.add(HTTP, '10.1.0.1', '10.1.0.2')
        self.node.add(DNS, '10.1.0.3', allowed=['198.51.100.0/24'],
                      encapsulation=types.Encapsulation.GUE)
        self.node.add(HTTP_V6, '10.1.0.4', 'fd00:1::1')
        self.enterContext(
            mock.patch.object(links, 'Links', recorded_node.Links))

    def explain(self, *frames):
        return explain.Explainer(
            self.node, recorded_node.UPLINK.ifindex).explain(
                list(enumerate(frames, 1)))

    def check(self, frame, outcome, member=None):
        found, = self.explain(frame)
        self.assertEqual([], found.differences, found.text())
        self.assertEqual(outcome, found.outcome, found.text())
        if member is not None:
            self.assertEqual(member, found.value()['member'])
        return found

    def steps(self, frame, outcome):
        return dict(self.check(frame, outcome).steps)


class TestDecisions(ExplainCase):
    """Each decision with its reason."""

    def test_steps_of_a_forwarded_packet_are_shown(self):
        found = self.check(with_(TCP), Outcome.FORWARDED)
        address = found.member
        self.assertEqual(
            ['packet', 'VIP', 'service', 'allowed_cidrs', 'slot', 'owner',
             'member', 'uplink', 'size'], [topic for topic, _ in found.steps])
        steps = dict(found.steps)
        self.assertEqual('TCP 198.51.100.7:40000 -> 192.0.2.1:80, 40 bytes',
                         steps['packet'])
        self.assertEqual('192.0.2.1 is a VIP with the services TCP 80, '
                         'UDP 53', steps['VIP'])
        self.assertEqual('TCP port 80: 2 of 2 members take new flows, '
                         'encapsulation ipip', steps['service'])
        self.assertEqual('none: everybody may', steps['allowed_cidrs'])
        self.assertIn(' of 64, not open', steps['slot'])
        self.assertEqual((address, f'{address}: up, weight 1'),
                         (steps['owner'], steps['member']))
        self.assertIn('up0, next hop 02:00:00:00:00:03, by choice ',
                      steps['uplink'])
        self.assertEqual('40 bytes and 20 of outer header, the path takes '
                         '1500', steps['size'])
        lines = found.text().splitlines()
        self.assertRegex(lines[-2], '^outer .*02:00:00:00:00:01 -> '
                         f'02:00:00:00:00:03, IPIP 10.0.0.* -> {address}$')
        self.assertRegex(lines[-1], '^outcome +FORWARDED, XDP_TX$')

    def test_tunnel_of_a_member_is_shown(self):
        member, = self.node.states[DNS]
        self.node.states[DNS] = [member._replace(tunnel=types.Tunnel(
            '10.9.0.1', types.Encapsulation.GENEVE, 7))]
        found = self.check(with_(UDP), Outcome.FORWARDED)
        self.assertEqual('geneve 10.9.0.1 key 7',
                         dict(found.steps)['tunnel'])
        self.assertIn('10.9.0.1, VNI 7', found.text())

    def test_packets_to_other_addresses_pass_to_the_kernel(self):
        for frame, topic, why in (
                (with_(TCP, destination='192.0.2.77'), 'VIP',
                 'none of this node'),
                (with_(TCP, destination_port=8080), 'service',
                 'none for TCP port 8080'),
                (bytes(l2.Ether(dst='02:00:00:00:00:01') / l2.ARP()),
                 'packet', 'neither IPv4 nor IPv6: not looked at'),
                (b'\xff' * 6 + with_(TCP)[6:], 'packet', 'to the group'),
                (with_(ECHO, fragment='first'), 'protocol',
                 'a fragment of ICMP')):
            self.assertIn(why, self.steps(frame, Outcome.PASS)[topic])

    def test_answers_name_their_budget(self):
        steps = self.steps(with_(ECHO, length=90), Outcome.ECHO_REPLY)
        self.assertIn('1000 per second and CPU', steps['answer'])
        steps = self.steps(with_(TCP, length=1481), Outcome.SENT_TOO_BIG)
        self.assertEqual('the client is sent an MTU of 1480',
                         steps['too big'])
        self.assertIn('1000 per second and CPU', steps['answer'])

    def test_each_drop_names_its_reason(self):
        self.node.add(types.Key(VIP, 'TCP', 81))
        for frame, outcome, topic, why in (
                (with_(TCP, length=1481, may_fragment=True),
                 Outcome.DROP_TOO_BIG, 'too big', 'without DF'),
                (with_(TCP, source='127.0.0.1'), Outcome.DROP_MARTIAN,
                 'source', '127.0.0.1 is no source'),
                (with_(TCP_V6, source='::1'), Outcome.DROP_MARTIAN,
                 'source', '::1 is no source'),
                (with_(UDP, source='203.0.113.1'), Outcome.DROP_NOT_ALLOWED,
                 'allowed_cidrs', '203.0.113.1 is in none of 1'),
                (with_(TCP, destination_port=81), Outcome.DROP_NO_MEMBER,
                 'member', 'nobody takes it'),
                (with_(UDP, destination_port=6080), Outcome.DROP_TUNNEL,
                 'protocol', 'GUE'),
                (with_(TCP)[:50], Outcome.DROP_MALFORMED, 'headers',
                 'the frame holds 36'),
                (with_(TCP_V6, protocol='sctp', fragment='later'),
                 Outcome.DROP_FRAGMENT, 'service', 'none for SCTP')):
            self.assertIn(why, self.steps(frame, outcome)[topic])

    def test_without_an_uplink_there_is_no_next_hop(self):
        self.node.uplink = None
        steps = self.steps(with_(TCP), Outcome.DROP_NO_NEXT_HOP)
        self.assertEqual('none has a next hop of IPv4', steps['uplink'])

    def test_without_an_outer_source_there_is_no_next_hop(self):
        self.node.settings = self.node.settings._replace(source_v4=None)
        steps = self.steps(with_(TCP), Outcome.DROP_NO_NEXT_HOP)
        self.assertEqual('the node has no outer source of IPv4',
                         steps['outer'])

    def test_allowed_networks_are_named(self):
        steps = self.steps(with_(UDP), Outcome.FORWARDED)
        self.assertEqual('198.51.100.7 is in 198.51.100.0/24',
                         steps['allowed_cidrs'])

    def test_member_that_is_down_is_called_so(self):
        key = types.Key(VIP, 'TCP', 82)
        self.node.add(key, '10.1.0.7', down=['10.1.0.7'])
        steps = self.steps(with_(TCP, destination_port=82),
                           Outcome.FORWARDED)
        self.assertEqual('10.1.0.7: down, weight 1', steps['member'])

    def test_rates_name_what_the_source_may_open(self):
        key = types.Key(VIP, 'TCP', 82)
        self.node.add(key, '10.1.0.1', new_flow_rate=1)
        frame = with_(TCP, destination_port=82, syn=True)
        first, second = self.explain(frame, frame)
        self.assertEqual((Outcome.FORWARDED, Outcome.DROP_RATE),
                         (first.outcome, second.outcome))
        self.assertEqual(([], []), (first.differences, second.differences))
        self.assertIn('may open 1 now', dict(first.steps)['rate'])
        self.assertIn('may open 0 now', dict(second.steps)['rate'])

    def test_quic_packets_go_where_their_connection_id_says(self):
        key = types.Key(VIP, 'UDP', 443)
        self.node.add(key, '10.1.0.1', '10.1.0.2',
                      flags=types.ServiceFlag.QUIC)
        server = quic.server_id(bytes((10, 1, 0, 2))).hex()
        wanted = dataclasses.replace(UDP, destination_port=443)
        found = self.check(
            with_(wanted, payload=bytes.fromhex(f'4000{server}0011')),
            Outcome.FORWARDED, '10.1.0.2')
        self.assertEqual(f'server ID {server}', dict(found.steps)['QUIC'])
        for payload, why in (('400001020304', 'of no member'),
                             ('00', 'no connection ID')):
            steps = self.steps(
                with_(wanted, payload=bytes.fromhex(payload)),
                Outcome.FORWARDED)
            self.assertIn(why, steps['QUIC'])

    def test_icmp_errors_follow_the_flow_that_they_quote(self):
        for wanted, vip, router, ip, error in (
                (TCP, VIP, '203.0.113.9', inet.IP,
                 inet.ICMP(type=3, code=4)),
                (TCP_V6, VIP_V6, '2001:db8:9::9', inet6.IPv6,
                 inet6.ICMPv6PacketTooBig())):
            expected, = self.explain(with_(wanted))
            quote = ip(src=vip, dst=wanted.source) / inet.TCP(
                sport=80, dport=40000)
            head = l2.Ether(dst='02:00:00:00:00:01') / ip(src=router,
                                                          dst=vip)
            found = self.check(bytes(head / error / quote),
                               Outcome.FORWARDED, expected.member)
            self.assertIn('an ICMP error about the flow TCP ',
                          dict(found.steps)['protocol'])
            steps = self.steps(bytes(head / error / b'nothing'),
                               Outcome.DROP_ICMP)
            self.assertIn('quotes no flow', steps['protocol'])


class TestFragments(ExplainCase):

    def test_later_fragments_follow_the_first(self):
        for wanted in (dataclasses.replace(UDP, length=100),
                       dataclasses.replace(TCP_V6, length=100)):
            alone, first, later = self.explain(
                with_(wanted, fragment='later'),
                with_(wanted, fragment='first'),
                with_(wanted, fragment='later'))
            self.assertEqual([], alone.differences + first.differences
                             + later.differences)
            self.assertIn(Outcome.FRAGMENT_GUESSED, alone.run.outcomes)
            self.assertNotIn(Outcome.FRAGMENT_GUESSED, later.run.outcomes)
            self.assertIn('where the first went is not known',
                          dict(alone.steps)['fragment'])
            self.assertIn('later ones will follow',
                          dict(first.steps)['fragment'])
            self.assertIn(f'the first went to {first.member}',
                          dict(later.steps)['fragment'])
            self.assertEqual(first.member, later.member)


class TestOpenSlots(ExplainCase):

    def setUp(self):
        super().setUp()
        # all slots were the first member's
        self.node.changing[HTTP] = 0
        self.moved = next(
            port for port in range(40000, 40100)
            if self.explain(with_(TCP, source_port=port, syn=True))[0].member
            == '10.1.0.2')
        self.frame = with_(TCP, source_port=self.moved)
        self.opening = with_(TCP, source_port=self.moved, syn=True)

    def test_old_flows_stay_and_new_ones_move(self):
        old, = self.explain(self.frame)
        new, again, follows = self.explain(self.opening, self.opening,
                                           self.frame)
        self.assertEqual(
            ('10.1.0.1', '10.1.0.2', '10.1.0.2', '10.1.0.2'),
            tuple(one.member for one in (old, new, again, follows)))
        for found, why in (
                (old, 'not remembered, so older than the change'),
                (new, 'a new flow'),
                (again, 'opened before, and not answered yet'),
                (follows, 'remembered')):
            self.assertEqual([], found.differences, found.text())
            self.assertEqual(f'{found.member}: {why}',
                             dict(found.steps)['choice'])
        self.assertEqual('now 10.1.0.2, before 10.1.0.1',
                         dict(old.steps)['owner'])
        self.assertEqual('no', dict(old.steps)['remembered'])
        self.assertEqual('with 10.1.0.2, 0 s ago, not confirmed',
                         dict(follows.steps)['remembered'])

    def test_flows_that_cannot_be_remembered_are_no_difference(self):
        """More new flows than the memory has places for."""
        frames = [with_(TCP, source_port=port, syn=True)
                  for port in range(20000, 20200)]
        found = self.explain(*frames)
        full = [one for one in found
                if Outcome.FLOW_TABLE_FULL in one.run.outcomes]
        self.assertGreater(len(full), 50)
        self.assertEqual([], [one.text() for one in found
                              if one.differences])
        self.assertEqual({'10.1.0.1'}, {one.member for one in full})
        self.assertIn('cannot be remembered',
                      dict(full[0].steps)['choice'])


class TestComparison(ExplainCase):
    """What the program does otherwise is said."""

    def differences(self, packet_, **changed):
        self.node.spoil = lambda run: run._replace(**changed)
        return self.explain(packet_)[0].differences

    def test_another_outcome_is_said(self):
        self.assertEqual(
            ['the outcome is DROP_NO_MEMBER, by the tables FORWARDED'],
            self.differences(with_(TCP), action=1,
                             outcomes={types.Outcome.DROP_NO_MEMBER: 1}))

    def test_another_action_is_said(self):
        self.assertEqual(['it is XDP_REDIRECT, by the tables XDP_TX'],
                         self.differences(with_(TCP), action=4))

    def test_another_remark_is_said(self):
        self.assertEqual(
            ['remarks differ: FRAGMENT_GUESSED'],
            self.differences(with_(TCP), outcomes={
                types.Outcome.FRAGMENT_GUESSED: 1}))

    def other_frame(self, at, new):
        frame = self.explain(with_(TCP))[0].run.frame
        return self.differences(
            with_(TCP), frame=frame[:at] + new + frame[at + len(new):])

    def test_another_member_is_said(self):
        found = self.other_frame(30, bytes((10, 9, 9, 9)))
        self.assertEqual(1, len(found))
        self.assertIn('it goes to 10.9.9.9, by the tables to 10.1.0.',
                      found[0])

    def test_another_next_hop_is_said(self):
        self.assertEqual(
            ['its next hop is 02:00:00:00:00:09, by the tables '
             '02:00:00:00:00:03'], self.other_frame(5, b'\x09'))

    def test_another_outer_header_is_said(self):
        self.assertIn('what leaves is not IPIP',
                      self.other_frame(23, b'\x2f')[0])

    def test_another_byte_is_said(self):
        self.assertIn('from byte 22 on it is 09', self.other_frame(
            22, b'\x09')[0])

    def test_another_slot_is_said(self):
        select = recorded_node.Simulation.select
        with mock.patch.object(
                recorded_node.Simulation, 'select',
                lambda *arguments: select(*arguments)._replace(slot=65)):
            found, = self.explain(with_(TCP))
        self.assertIn('slot is 65 of 64, by its hash', found.differences[0])

    def test_spent_budget_is_no_difference(self):
        self.assertEqual([], self.differences(
            with_(ECHO), action=2, outcomes={}, frame=with_(ECHO)))

    def test_text_with_differences_says_so(self):
        self.node.spoil = lambda run: run._replace(action=4)
        found, = self.explain(with_(TCP))
        self.assertIn('THE PROGRAM DOES NOT DO WHAT THE TABLES SAY',
                      found.text())
        self.assertFalse(found.value()['agrees'])


class TestRoutes(ExplainCase):
    """With routes in place of uplinks the link header is not known."""

    def setUp(self):
        super().setUp()
        self.node.settings = self.node.settings._replace(
            flags=types.NodeFlag.FIB)

    def test_differences_of_the_outer_header_are_found(self):
        found = self.check(with_(TCP), Outcome.FORWARDED)
        self.assertIn('routes are asked', dict(found.steps)['uplink'])
        frame = found.run.frame
        self.node.spoil = lambda run: run._replace(
            frame=frame[:30] + bytes((10, 9, 9, 9)) + frame[34:])
        found, = self.explain(with_(TCP))
        self.assertIn('it goes to 10.9.9.9', found.differences[0])

    def test_refusal_by_routes_is_no_difference(self):
        for outcome in (Outcome.DROP_NO_NEXT_HOP, Outcome.DROP_TOO_BIG):
            self.node.spoil = lambda run, outcome=outcome: run._replace(
                action=1, outcomes={types.Outcome(outcome): 1})
            found, = self.explain(with_(TCP))
            self.assertEqual([], found.differences)
        self.node.spoil = lambda run: run._replace(
            action=1, outcomes={types.Outcome.DROP_RATE: 1})
        self.assertEqual(1, len(self.explain(with_(TCP))[0].differences))
