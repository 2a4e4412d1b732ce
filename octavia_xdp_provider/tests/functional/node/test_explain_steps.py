# SPDX-License-Identifier: Apache-2.0
"""Each decision that octavia-xdp-ctl explain shows: needs root.

Nothing is sent: the steps come from the record of the simulated program.
"""

import dataclasses

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from octavia_xdp_provider.ctl import explain
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests import instrumented
from octavia_xdp_provider.tests.functional.support import ctl_node
from octavia_xdp_provider.tests.functional.support import private_node as base
from octavia_xdp_provider.tests.support.clients import CLIENT
from octavia_xdp_provider.tests.support.clients import HTTP
from octavia_xdp_provider.tests.support.clients import TCP
from octavia_xdp_provider.tests.support.clients import TCP_V6
from octavia_xdp_provider.tests.support.clients import UDP
from octavia_xdp_provider.tests.support.clients import VIP
from octavia_xdp_provider.tests.support.clients import VIP_V6
from octavia_xdp_provider.tests.support.clients import with_

ECHO = packet.Wanted('icmp', CLIENT, VIP)
Outcome = datapath.Outcome


class Explained:

    def explain(self, *frames):
        with self.inside(self.node):
            return explain.Explainer(self.datapath, self.ifindex).explain(
                list(enumerate(frames, 1)))

    def check(self, *cases):
        """Explain frames with one simulation, which takes a second.

        :param cases: (frame, its outcome, by topic a part of its text).
        """
        explained = self.explain(*(frame for frame, *_expected in cases))
        for explanation, (_frame, outcome, steps) in zip(explained, cases,
                                                         strict=True):
            self.assertEqual(outcome, explanation.outcome, explanation.text())
            for topic, text in steps.items():
                self.assertIn(text, dict(explanation.steps).get(topic, ''),
                              explanation.text())
        return explained

    def add(self, port, protocol, *members, **settings):
        key = datapath.Key(VIP, protocol, port)
        self.datapath.set_service(
            key, [member if isinstance(member, datapath.Member)
                  else datapath.Member(member) for member in members],
            datapath.Settings(slots=base.SLOTS, **settings))
        self.addCleanup(self.datapath.delete_services, [key])


class TestSteps(Explained, ctl_node.SharedNode):

    def test_all_steps_of_a_packet_that_is_forwarded(self):
        explained, = self.explain(with_(TCP))
        address = explained.member
        self.assertEqual(
            ['packet', 'VIP', 'service', 'allowed_cidrs', 'slot', 'owner',
             'member', 'uplink', 'size'],
            [topic for topic, _ in explained.steps])
        steps = dict(explained.steps)
        self.assertEqual('TCP 198.51.100.7:40000 -> 192.0.2.1:80, 40 bytes',
                         steps['packet'])
        self.assertEqual('192.0.2.1 is a VIP with the services TCP 80, '
                         'UDP 53', steps['VIP'])
        self.assertEqual('TCP port 80: 2 of 2 members take new flows, '
                         'encapsulation ipip', steps['service'])
        self.assertEqual('none: everybody may', steps['allowed_cidrs'])
        self.assertRegex(steps['slot'], f'^[0-9]+ of {base.SLOTS}, not open$')
        self.assertEqual((address, f'{address}: up, weight 1'),
                         (steps['owner'], steps['member']))
        self.assertIn(f'up0, next hop {base.NEXT_HOP_MAC}, by choice ',
                      steps['uplink'])
        self.assertEqual('40 bytes and 20 of outer header, the path takes '
                         '1500', steps['size'])
        lines = explained.text().splitlines()
        self.assertRegex(lines[-2], f'^outer .*{base.OWN_MAC} -> '
                         f'{base.NEXT_HOP_MAC}, IPIP 10.0.0.* -> {address}$')
        self.assertRegex(lines[-1], '^outcome +FORWARDED, XDP_TX$')

    def test_slot_shown_is_the_slot_of_the_member(self):
        """The fast path decides by it, and the record computes it again."""
        for wanted in (TCP, TCP_V6):
            table, _before = self.datapath.tables(HTTP._replace(
                address=wanted.destination))
            for explained in self.explain(*(
                    with_(wanted, source_port=port)
                    for port in range(40000, 40032))):
                slot = int(dict(explained.steps)['slot'].split()[0])
                self.assertEqual(explained.member, str(table[slot]))

    def test_unchanged_packets_name_why_they_are_left_alone(self):
        self.check(*((frame, Outcome.PASS, {topic: why})
                     for frame, topic, why in (
            (with_(TCP, destination='192.0.2.77'), 'VIP',
             'none of this node'),
            (with_(TCP, destination_port=8080), 'service',
             'none for TCP port 8080'),
            (bytes(l2.Ether(dst=base.OWN_MAC) / l2.ARP()),
             'packet', 'neither IPv4 nor IPv6: not looked at'),
            (b'\xff' * 6 + with_(TCP)[6:], 'packet', 'to the group'),
            (with_(ECHO, fragment='first'), 'protocol',
             'a fragment of ICMP'))))

    def test_answers_name_their_budget(self):
        self.check(
            (with_(ECHO, length=90), Outcome.ECHO_REPLY,
             {'answer': '1000 per second and CPU'}),
            (with_(TCP, length=1481), Outcome.SENT_TOO_BIG,
             {'too big': 'the client is sent an MTU of 1480',
              'answer': '1000 per second and CPU'}))

    def test_each_drop_names_its_reason(self):
        self.add(81, 'TCP')
        known = {'service': 'members take new flows'}
        self.check(
            (with_(TCP, length=1481, may_fragment=True), Outcome.DROP_TOO_BIG,
             known | {'too big': 'without DF'}),
            (with_(TCP, source='127.0.0.1'), Outcome.DROP_MARTIAN,
             known | {'source': '127.0.0.1 is no source'}),
            (with_(TCP_V6, source='::1'), Outcome.DROP_MARTIAN,
             known | {'source': '::1 is no source'}),
            (with_(UDP, source='203.0.113.1'), Outcome.DROP_NOT_ALLOWED,
             known | {'allowed_cidrs': '203.0.113.1 is in none of 1'}),
            (with_(TCP, destination_port=81), Outcome.DROP_NO_MEMBER,
             known | {'slot': f'of {base.SLOTS}', 'owner': 'nobody',
                      'member': 'nobody takes it'}),
            (with_(UDP, destination_port=6080), Outcome.DROP_TUNNEL,
             {'protocol': 'GUE'}),
            (with_(TCP)[:50], Outcome.DROP_MALFORMED,
             {'headers': 'the frame holds 36'}),
            (with_(TCP_V6, protocol='sctp', fragment='later'),
             Outcome.DROP_FRAGMENT, {'service': 'none for SCTP'}))

    def test_allowed_networks_are_named(self):
        named = {'allowed_cidrs': '198.51.100.7 is in 198.51.100.0/24'}
        self.check((with_(UDP), Outcome.FORWARDED, named),
                   (with_(UDP, fragment='first'), Outcome.FORWARDED, named))

    def test_settings_of_services_and_members_are_named(self):
        tunnel = datapath.Tunnel('10.9.0.1', datapath.Encapsulation.GENEVE, 7)
        self.add(82, 'TCP', datapath.Member('10.1.0.7', tunnel=tunnel),
                 datapath.Member('10.1.0.8', admin_up=False))
        self.add(83, 'TCP', datapath.Member('10.1.0.7', port=8083))
        self.add(84, 'TCP', '10.1.0.7', flags=datapath.ServiceFlag.SOURCE)
        tunnelled, ported, _by_source = self.check(
            (with_(TCP, destination_port=82), Outcome.FORWARDED,
             {'tunnel': 'geneve 10.9.0.1 key 7',
              'service': '1 of 2 members take new flows'}),
            (with_(TCP, destination_port=83), Outcome.FORWARDED,
             {'port': '8083, the member\'s, takes the place of 83'}),
            (with_(TCP, destination_port=84), Outcome.FORWARDED,
             {'slot': 'by source address, not open'}))
        self.assertEqual('10.1.0.7', tunnelled.member)
        self.assertIn('10.9.0.1, VNI 7', tunnelled.text())
        self.assertEqual('10.1.0.7:8083', ported.member)

    def test_rates_name_what_the_source_may_open(self):
        self.add(82, 'TCP', '10.1.0.1', new_flow_rate=1)
        frame = with_(TCP, destination_port=82, syn=True)
        first, second = self.explain(frame, frame)
        self.assertEqual((Outcome.FORWARDED, Outcome.DROP_RATE),
                         (first.outcome, second.outcome))
        self.assertIn('may open 1 now', dict(first.steps)['rate'])
        self.assertIn('may open 0 now', dict(second.steps)['rate'])

    def test_quic_packets_go_where_their_connection_id_says(self):
        self.add(443, 'UDP', '10.1.0.1', '10.1.0.2',
                 flags=datapath.ServiceFlag.QUIC)
        server = f'{instrumented.Library().quic_server_id("10.1.0.2"):08x}'
        wanted = dataclasses.replace(UDP, destination_port=443)
        explained, *others = self.check(*(
            (with_(wanted, payload=bytes.fromhex(payload)), Outcome.FORWARDED,
             {'QUIC': why}) for payload, why in (
                 (f'4000{server}0011', f'server ID {server}'),
                 ('400001020304', '01020304 is of no member'),
                 ('00', 'no connection ID'))))
        self.assertEqual('10.1.0.2', explained.member)
        self.assertNotIn('slot', dict(explained.steps))
        self.assertTrue(all('slot' in dict(other.steps) for other in others))

    def test_icmp_errors_follow_the_flow_that_they_quote(self):
        for wanted, vip, router, ip, error in (
                (TCP, VIP, '203.0.113.9', inet.IP,
                 inet.ICMP(type=3, code=4)),
                (TCP_V6, VIP_V6, '2001:db8:9::9', inet6.IPv6,
                 inet6.ICMPv6PacketTooBig())):
            expected, = self.explain(with_(wanted))
            quote = ip(src=vip, dst=wanted.source) / inet.TCP(
                sport=80, dport=40000)
            head = l2.Ether(dst=base.OWN_MAC) / ip(src=router, dst=vip)
            flow = dict(expected.steps)['packet'].rpartition(',')[0]
            follows = (bytes(head / error / quote), Outcome.FORWARDED,
                       {'protocol': f'an ICMP error about the flow {flow}',
                        'slot': dict(expected.steps)['slot']})
            quote[inet.TCP].sport = 99
            explained, *_unknown = self.check(
                follows, (bytes(head / error / b'nothing'), Outcome.DROP_ICMP,
                          {'protocol': 'quotes no flow'}),
                (bytes(head / error / quote), Outcome.DROP_ICMP,
                 {'service': 'none for TCP port 99'}))
            self.assertEqual(expected.member, explained.member)

    def test_later_fragments_follow_the_first(self):
        for wanted in (dataclasses.replace(UDP, length=100),
                       dataclasses.replace(TCP_V6, length=100)):
            alone, first, later = self.explain(
                with_(wanted, fragment='later'),
                with_(wanted, fragment='first'),
                with_(wanted, fragment='later'))
            self.assertIn(Outcome.FRAGMENT_GUESSED, alone.run.outcomes)
            self.assertNotIn(Outcome.FRAGMENT_GUESSED, later.run.outcomes)
            self.assertIn('a later one of 0x1234; where the first went is '
                          'not known', dict(alone.steps)['fragment'])
            self.assertIn('later ones will follow',
                          dict(first.steps)['fragment'])
            self.assertIn(f'the first went to {first.member}',
                          dict(later.steps)['fragment'])
            self.assertEqual(first.member, later.member)


class TestSettings(Explained, ctl_node.Node):
    """With other settings of the node, and with open slots."""

    def test_without_a_way_there_is_no_next_hop(self):
        self.datapath.set_node(datapath.NodeSettings(
            None, 'fd00::1', flags=datapath.NodeFlag.ECHO))
        self.check((with_(TCP), Outcome.DROP_NO_NEXT_HOP,
                    {'outer': 'the node has no outer source of IPv4'}))
        self.datapath.set_node(datapath.NodeSettings('10.0.0.0'))
        self.datapath.set_uplinks([])
        self.check((with_(ECHO), Outcome.PASS,
                    {'protocol': 'ICMP echo request',
                     'answer': 'does not answer'}),
                   (with_(TCP), Outcome.DROP_NO_NEXT_HOP,
                    {'uplink': 'none has a next hop of IPv4'}))

    def test_flows_of_nat_are_those_of_the_node(self):
        self.datapath.set_nat_pools(['10.77.0.0/30'])
        self.add(84, 'TCP', '10.1.0.7', flags=datapath.ServiceFlag.NAT)
        opening = with_(TCP, destination_port=84, syn=True)
        self.check((opening, Outcome.DROP_NO_NAT_FLOW,
                    {'service': 'TCP port 84', 'NAT': 'makes none'}))
        with self.inside(self.node):
            self.datapath.run([(opening, self.ifindex)])
        explained, _orphan = self.check(
            (opening, Outcome.FORWARDED,
             {'service': 'TCP port 84', 'member': '10.1.0.7: up',
              'NAT': 'the node has the flow'}),
            (with_(TCP, destination_port=84, source_port=1),
             Outcome.SENT_RESET, {'answer': 'up to 1000 per second'}))
        self.assertEqual('10.1.0.7', explained.member)
        self.assertNotIn('\nouter ', explained.text())

    def test_old_flows_stay_and_new_ones_move(self):
        self.set(HTTP, ['10.1.0.1', '10.1.0.2', '10.1.0.5'])
        ports = range(40000, 40100)
        moved = next(port for port, explained in zip(ports, self.explain(*(
            with_(TCP, source_port=port, syn=True) for port in ports)),
            strict=True) if explained.member == '10.1.0.5')
        frame = with_(TCP, source_port=moved)
        opening = with_(TCP, source_port=moved, syn=True)
        old, = self.explain(frame)
        new, again, follows, confirmed = self.explain(opening, opening, frame,
                                                      frame)
        self.assertNotEqual(new.member, old.member)
        for explained, why in (
                (old, 'not remembered, so older than the change'),
                (new, 'a new flow'),
                (again, 'opened before, and not answered yet'),
                (follows, 'remembered'), (confirmed, 'remembered')):
            steps = dict(explained.steps)
            self.assertEqual(f'{explained.member}: {why}', steps['choice'])
            self.assertEqual(f'now 10.1.0.5, before {old.member}',
                             steps['owner'])
            self.assertIn('open: it changes owners', steps['slot'])
        self.assertEqual(
            ['no', 'no', 'with 10.1.0.5, 0 s ago, not confirmed',
             'with 10.1.0.5, 0 s ago, not confirmed',
             'with 10.1.0.5, 0 s ago, confirmed'],
            [dict(explained.steps)['remembered']
             for explained in (old, new, again, follows, confirmed)])
