# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl explain against what happens to packets: needs root."""

import os
import socket
import tempfile

from scapy import utils
from scapy.layers import l2

from octavia_xdp_provider.ctl import explain
from octavia_xdp_provider.ctl import outcome as outcomes
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import ctl_node
from octavia_xdp_provider.tests.functional.support import private_node as base
from octavia_xdp_provider.tests.functional.support.ctl_node import SOON
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support.clients import CLIENT
from octavia_xdp_provider.tests.support.clients import CLIENT_V6
from octavia_xdp_provider.tests.support.clients import HTTP
from octavia_xdp_provider.tests.support.clients import TCP
from octavia_xdp_provider.tests.support.clients import TCP_V6
from octavia_xdp_provider.tests.support.clients import UDP
from octavia_xdp_provider.tests.support.clients import VIP
from octavia_xdp_provider.tests.support.clients import VIP_V6
from octavia_xdp_provider.tests.support.clients import with_

Outcome = datapath.Outcome


class TestExplain(ctl_node.Node):
    """Explanations match what happens, and change nothing."""

    def setUp(self):
        super().setUp()
        self.set(datapath.Key(VIP, 'TCP', 81), [])
        self.set(datapath.Key(VIP, 'TCP', 82), ['10.1.0.1'], new_flow_rate=1,
                 flags=datapath.ServiceFlag.SOURCE)
        self.set(datapath.Key(VIP, 'SCTP', 2905), ['10.1.0.9'], dscp=46,
                 encapsulation=datapath.Encapsulation.DSCP)
        self.set(datapath.Key(VIP_V6, 'UDP', 53), ['fd00:1::2'],
                 encapsulation=datapath.Encapsulation.SRV6,
                 sid_function=0x1234)
        with self.inside(self.peer):
            self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                      socket.htons(3))
            self.wire.bind(('gw0', 3))
        self.wire.settimeout(SOON)
        self.addCleanup(self.wire.close)

    def state(self):
        """All that packets leave, where it can be seen."""
        dumps = [base.command('bpftool', '-j', 'map', 'dump', 'pinned',
                              os.path.join(self.pins, 'maps', name))
                 for name in ('fragments', 'sources', 'flows', 'outcomes',
                              'icmp_budget')]
        counters = [(service.counters, self.datapath.members(service.key))
                    for service in self.datapath.services()]
        return dumps, counters

    def explain(self, *frames):
        with self.inside(self.node):
            return explain.Explainer(self.datapath, self.ifindex).explain(
                list(enumerate(frames, 1)))

    def send(self, frame):
        """The packet on the wire: (outcomes that were counted, services'
        packets, frame that came back or None)."""
        before = self.datapath.outcomes(), self.forwarded()
        # after it: when this one is back, so is an answer
        echo = with_(packet.Wanted('icmp', CLIENT, VIP), payload=b'marker')
        self.wire.send(frame)
        self.wire.send(echo)
        answers = []
        while True:
            # what came in; not what this socket sent
            data, (*_unused, kind, _hardware, _mac) = self.wire.recvfrom(
                65536)
            if kind == socket.PACKET_OUTGOING or data[6:12].hex(
                    ':') == '33:33':
                continue
            if data.endswith(b'marker') and data[14 + 20] == 0:
                break
            if data[:6] != frame[:6]:
                answers.append(data)
        after = self.datapath.outcomes(), self.forwarded()
        counted = {
            outcome: after[0][outcome].packets - before[0][outcome].packets
            for outcome in after[0]}
        counted[Outcome.ECHO_REPLY] -= 1
        return ({outcome for outcome, count in counted.items() if count},
                after[1] - before[1], answers)

    def forwarded(self):
        return sum(service.counters.packets
                   for service in self.datapath.services())

    def check(self, frame, outcome, member=None):
        before = self.state()
        explained, = self.explain(frame)
        self.assertEqual(before, self.state())
        self.assertEqual(outcome, explained.outcome, explained.text())
        if member:
            self.assertEqual(member, explained.value()['member'])
        counted, forwarded, answers = self.send(frame)
        self.assertEqual(set(explained.run.outcomes), counted,
                         explained.text())
        self.assertEqual(outcome == Outcome.FORWARDED, bool(forwarded))
        # Frames of the peer's own stack are no answers.
        sent = [data for data in answers if data == explained.run.frame]
        self.assertEqual(explained.run.action == outcomes.Action.TX,
                         len(sent) == 1,
                         (explained.text(), explained.run.frame.hex(),
                          [data.hex() for data in answers]))
        return explained

    @form.in_long_form
    def test_forwarded_packets_are_explained(self):
        first, second = sorted({
            self.check(with_(TCP, source_port=port, syn=port % 2),
                       Outcome.FORWARDED).value()['member']
            for port in range(40000, 40010)})
        self.assertEqual(('10.1.0.1', '10.1.0.2'), (first, second))
        self.check(with_(UDP, length=1472, dscp=46), Outcome.FORWARDED,
                   '10.1.0.3')
        self.check(with_(TCP, vlans=(7,)), Outcome.FORWARDED)
        self.check(with_(packet.Wanted('sctp', CLIENT, VIP, 1, 2905),
                         syn=True), Outcome.FORWARDED, '10.1.0.9')
        for port in range(8):
            self.check(with_(TCP_V6, source_port=port), Outcome.FORWARDED)
        self.check(with_(TCP_V6, protocol='udp', destination_port=53),
                   Outcome.FORWARDED, 'fd00:1::2')

    def test_passed_packets_are_explained(self):
        self.check(with_(TCP, destination='192.0.2.77'), Outcome.PASS)
        self.check(with_(TCP, destination_port=8080), Outcome.PASS)
        self.check(bytes(l2.Ether(dst=base.OWN_MAC) / l2.ARP()),
                   Outcome.PASS)
        frame = packet.frame(TCP)
        self.check(frame, Outcome.FORWARDED)
        self.check(bytes(6 * (0xff,)) + frame[6:], Outcome.PASS)

    def test_answered_packets_are_explained(self):
        self.check(with_(packet.Wanted('icmp', CLIENT, VIP), length=90),
                   Outcome.ECHO_REPLY)
        self.check(with_(packet.Wanted('icmp', CLIENT_V6, VIP_V6)),
                   Outcome.ECHO_REPLY)
        self.check(with_(TCP, length=1481), Outcome.SENT_TOO_BIG)
        self.check(with_(TCP_V6, length=1481), Outcome.SENT_TOO_BIG)

    def test_dropped_packets_are_explained(self):
        self.check(with_(TCP, length=1481, may_fragment=True),
                   Outcome.DROP_TOO_BIG)
        self.check(with_(TCP, source='127.0.0.1'), Outcome.DROP_MARTIAN)
        self.check(with_(TCP_V6, source='::1'), Outcome.DROP_MARTIAN)
        self.check(with_(UDP, source='203.0.113.1'),
                   Outcome.DROP_NOT_ALLOWED)
        self.check(with_(TCP, destination_port=81), Outcome.DROP_NO_MEMBER)
        self.check(with_(UDP, destination_port=6080), Outcome.DROP_TUNNEL)
        self.check(with_(packet.Wanted('tcp', CLIENT, VIP, 1, 80))[:50],
                   Outcome.DROP_MALFORMED)
        self.datapath.set_uplinks([])
        explained, = self.explain(with_(TCP))
        self.assertEqual(Outcome.DROP_NO_NEXT_HOP, explained.outcome)

    def test_explaining_takes_no_tokens(self):
        frame = with_(TCP, destination_port=82, syn=True)
        first, second = self.explain(frame, frame)
        self.assertEqual((Outcome.FORWARDED, Outcome.DROP_RATE),
                         (first.outcome, second.outcome))
        # the simulation took no token of the node's
        self.check(frame, Outcome.FORWARDED)

    @form.in_long_form
    def test_flows_of_open_slots_are_explained(self):
        """New, old and remembered flows while a member comes."""
        self.set(HTTP, ['10.1.0.1', '10.1.0.2', '10.1.0.5'])
        now, before = self.datapath.tables(HTTP)
        moved = 0
        for port in range(40000, 40040):
            frame = with_(TCP, source_port=port)
            opening = with_(TCP, source_port=port, syn=True)
            old, new = self.explain(frame)[0], self.explain(opening)[0]
            members = [explained.value()['member'] for explained in (old, new)]
            if members[0] == members[1]:
                continue
            moved += 1
            self.assertEqual('10.1.0.5', members[1])
            self.check(frame, Outcome.FORWARDED, members[0])
            self.check(opening, Outcome.FORWARDED, members[1])
            self.check(frame, Outcome.FORWARDED, members[1])
            steps = dict(self.explain(frame)[0].steps)
            self.assertIn('confirmed', steps['remembered'])
            if moved == 3:
                break
        self.assertEqual(3, moved)
        self.assertNotEqual(now, before)

    def test_command_explains_a_packet_in_words(self):
        text = self.ctl('explain', 'tcp', f'{CLIENT}:40000', f'{VIP}:80',
                        '--syn').stdout
        self.assertIn('FORWARDED, XDP_TX', text)
        self.ctl('explain', 'tcp', CLIENT, f'{VIP}:80', status=2)
        self.ctl('explain', 'tcp', f'{CLIENT}:1', f'{VIP}:80',
                 '--interface', 'nowhere', status=2)

    @form.in_long_form
    def test_command_explains_the_packets_of_a_file(self):
        with tempfile.NamedTemporaryFile(suffix='.pcap') as file:
            with utils.PcapWriter(file.name, linktype=1) as out:
                for frame in (with_(TCP), with_(UDP, source='203.0.113.1'),
                              with_(UDP, fragment='first'),
                              with_(UDP, fragment='later')):
                    out.write(frame)
            packets = self.json('explain', '--file', file.name)['packets']
            self.assertEqual(
                ['forwarded', 'drop_not_allowed', 'forwarded', 'forwarded'],
                [packet['outcome'] for packet in packets])
            text = self.ctl('explain', '--file', file.name).stdout
            self.assertEqual(5, len(text.splitlines()), text)
            self.assertIn('DROP_NOT_ALLOWED', self.ctl(
                'explain', '--file', file.name, '--number', '2').stdout)
            self.ctl('explain', '--file', file.name, '--number', '9',
                     status=2)
            file.truncate(50)
            self.assertIn(file.name, self.ctl(
                'explain', '--file', file.name, status=2).stderr)

    def test_damaged_tables_are_reported(self):
        memory = self.memory('segment-0')
        raw, wrong = socket.inet_aton('10.1.0.3'), socket.inet_aton('10.9.9.9')
        place, changed = memory.find(raw), 0
        while place >= 0:
            # The end of `outer` in heads, which are half lines; in a whole
            # member its own address is so far behind it.
            if place % 32 == 12 and memory[place + 24:place + 28] != raw:
                memory[place:place + 4] = wrong
                changed += 1
            place = memory.find(raw, place + 4)
        self.assertGreater(changed, 0)
        # Shown is what the program does, and verify finds the damage.
        self.assertIn('-> 10.9.9.9', self.ctl(
            'explain', 'udp', f'{CLIENT}:40000', f'{VIP}:53').stdout)
        self.assertIn('53', self.ctl('verify', status=1).stdout)
