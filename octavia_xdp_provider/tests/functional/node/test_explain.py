# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl explain against what happens to packets: needs root."""

import dataclasses
import os
import socket
import subprocess
import sys
import tempfile

from scapy import utils
from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from octavia_xdp_provider.ctl import compare
from octavia_xdp_provider.ctl import explain
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests import instrumented
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
    """What is explained is what happens, and leaves no trace."""

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
        counted = {one: after[0][one].packets - before[0][one].packets
                   for one in after[0]}
        counted[Outcome.ECHO_REPLY] -= 1
        return ({one for one, count in counted.items() if count},
                after[1] - before[1], answers)

    def forwarded(self):
        return sum(one.counters.packets for one in self.datapath.services())

    def check(self, frame, outcome, member=None):
        before = self.state()
        found, = self.explain(frame)
        self.assertEqual(before, self.state())
        self.assertEqual([], found.differences, found.text())
        self.assertEqual(outcome, found.outcome, found.text())
        if member:
            self.assertEqual(member, found.value()['member'])
        counted, forwarded, answers = self.send(frame)
        self.assertEqual(set(found.run.outcomes), counted, found.text())
        self.assertEqual(outcome == Outcome.FORWARDED, bool(forwarded))
        # Frames of the peer's own stack are no answers.
        sent = [data for data in answers if data == found.run.frame]
        self.assertEqual(found.run.action == compare.Action.TX, len(sent) == 1,
                         (found.text(), found.run.frame.hex(),
                          [data.hex() for data in answers]))
        return found

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
        found, = self.explain(with_(TCP))
        self.assertEqual((Outcome.DROP_NO_NEXT_HOP, []),
                         (found.outcome, found.differences))

    def test_explaining_takes_no_tokens(self):
        frame = with_(TCP, destination_port=82, syn=True)
        first, second = self.explain(frame, frame)
        self.assertEqual((Outcome.FORWARDED, Outcome.DROP_RATE),
                         (first.outcome, second.outcome))
        self.assertEqual(([], []), (first.differences, second.differences))
        # the simulation took no token of the node's
        self.check(frame, Outcome.FORWARDED)

    @form.in_long_form
    def test_fragments_are_explained_by_what_the_node_saw(self):
        for wanted in (dataclasses.replace(UDP, length=100),
                       dataclasses.replace(TCP_V6, length=100)):
            later = with_(wanted, fragment='later')
            found = self.check(later, Outcome.FORWARDED)
            self.assertIn(Outcome.FRAGMENT_GUESSED, found.run.outcomes)
            self.check(with_(wanted, fragment='first'), Outcome.FORWARDED)
            found = self.check(later, Outcome.FORWARDED)
            self.assertNotIn(Outcome.FRAGMENT_GUESSED, found.run.outcomes)
        self.check(with_(TCP_V6, destination=VIP_V6, protocol='sctp',
                         fragment='later'), Outcome.DROP_FRAGMENT)

    @form.in_long_form
    def test_icmp_errors_are_explained_by_their_quote(self):
        link = l2.Ether(dst=base.OWN_MAC, src=base.NEXT_HOP_MAC)
        quote = inet.IP(src=VIP, dst=CLIENT) / inet.TCP(sport=80, dport=40000)
        error = inet.IP(src='203.0.113.9', dst=VIP) / inet.ICMP(
            type=3, code=4, nexthopmtu=1400)
        expected, = self.explain(with_(TCP))
        self.check(bytes(link / error / quote), Outcome.FORWARDED,
                   expected.value()['member'])
        quote.src = '192.0.2.99'
        self.check(bytes(link / error / quote), Outcome.DROP_ICMP)
        quote = inet6.IPv6(src=VIP_V6, dst=CLIENT_V6) / inet.TCP(
            sport=80, dport=40000)
        error = inet6.IPv6(src='2001:db8:9::9',
                           dst=VIP_V6) / inet6.ICMPv6PacketTooBig(mtu=1400)
        expected, = self.explain(with_(TCP_V6))
        self.check(bytes(link / error / quote), Outcome.FORWARDED,
                   expected.value()['member'])

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
            members = [one.value()['member'] for one in (old, new)]
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

    @form.in_long_form
    def test_new_flows_are_forwarded_when_the_memory_is_full(self):
        """More new flows than can be remembered.

        The second packet of each confirms it: however slow the run is, no
        flow makes room for a newer one.
        """
        self.set(HTTP, ['10.1.0.1', '10.1.0.2', '10.1.0.5'])
        found = self.explain(*(
            with_(TCP, source_port=port, syn=syn)
            for port in range(20000, 26000) for syn in (True, False)))
        self.assertEqual([], [one.text() for one in found
                              if one.differences])
        opening, following = found[::2], found[1::2]
        full = [one for one in opening
                if Outcome.FLOW_TABLE_FULL in one.run.outcomes]
        self.assertGreater(len(full), 100)
        self.assertLess(len(full), len(opening) - 1000)
        self.assertEqual([], [one.text() for one in following
                              if Outcome.FLOW_TABLE_FULL in one.run.outcomes])
        # remembered or not, a flow stays with its member
        self.assertEqual([one.member for one in opening],
                         [one.member for one in following])

    @form.in_long_form
    def test_quic_connections_are_explained_by_server_id(self):
        key = datapath.Key(VIP, 'UDP', 443)
        members = [f'10.1.0.{number}' for number in range(1, 6)]
        self.set(key, members, flags=datapath.ServiceFlag.QUIC)
        for member in members:
            server = instrumented.Library().quic_server_id(member)
            self.check(with_(UDP, destination_port=443, payload=bytes.fromhex(
                f'4000{server:08x}0011')), Outcome.FORWARDED, member)
        found = self.check(with_(
            UDP, destination_port=443, payload=bytes.fromhex(
                '400001020304')), Outcome.FORWARDED)
        self.assertIn('no member', dict(found.steps)['QUIC'])

    @form.in_long_form
    def test_packets_left_to_the_stack_are_explained(self):
        self.datapath.set_node(datapath.NodeSettings(
            '10.0.0.0', flags=datapath.NodeFlag.PASS_TOO_BIG))
        found, = self.explain(with_(TCP, length=1500, may_fragment=True))
        self.assertEqual((Outcome.PASSED_TOO_BIG, []),
                         (found.outcome, found.differences))
        # nobody is answered, and there is no outer source of IPv6
        for frame, outcome in (
                (with_(TCP, length=1500), Outcome.DROP_TOO_BIG),
                (with_(packet.Wanted('icmp', CLIENT, VIP)), Outcome.PASS),
                (with_(TCP_V6, protocol='udp', destination_port=53),
                 Outcome.DROP_NO_NEXT_HOP)):
            found, = self.explain(frame)
            self.assertEqual((outcome, []),
                             (found.outcome, found.differences))

    @form.in_long_form
    def test_routes_of_the_kernel_leave_the_action_open(self):
        self.datapath.set_node(datapath.NodeSettings(
            '10.0.0.0', 'fd00::1', flags=datapath.NodeFlag.FIB))
        found, = self.explain(with_(TCP))
        self.assertEqual(([], True), (found.differences,
                                      found.result.action is None))

    def test_command_explains_a_packet_in_words(self):
        text = self.ctl('explain', 'tcp', f'{CLIENT}:40000', f'{VIP}:80',
                        '--syn').stdout
        self.assertIn('FORWARDED, XDP_TX', text)
        self.ctl('explain', 'tcp', CLIENT, f'{VIP}:80', status=2)
        self.ctl('explain', 'tcp', f'{CLIENT}:1', f'{VIP}:80',
                 '--interface', 'nowhere', status=2)

    @form.in_long_form
    def test_missing_capabilities_are_named(self):
        words = self.words('explain', 'tcp', f'{CLIENT}:40000',
                           f'{VIP}:80', '--interface', 'up0')
        shell = words.index(sys.executable)
        for kept, named, absent in (
                ('-all,+dac_override', ('CAP_BPF',), 'CAP_SYS'),
                ('-all,+dac_override,+bpf',
                 ('CAP_NET_ADMIN and CAP_PERFMON are missing',), 'CAP_BPF'),
                ('-all,+dac_override,+bpf,+net_admin',
                 ('CAP_PERFMON is missing',), 'CAP_NET_ADMIN')):
            done = subprocess.run(
                [*words[:shell], 'setpriv', '--bounding-set', kept,
                 '--no-new-privs', '--', *words[shell:]],
                capture_output=True, text=True, timeout=SOON)
            self.assertEqual(2, done.returncode, done.stdout + done.stderr)
            for name in named:
                self.assertIn(name, done.stderr)
            self.assertNotIn('libbpf', done.stderr)
            self.assertNotIn(absent, done.stderr)

    @form.in_long_form
    def test_command_explains_the_packets_of_a_file(self):
        with tempfile.NamedTemporaryFile(suffix='.pcap') as file:
            with utils.PcapWriter(file.name, linktype=1) as out:
                for frame in (with_(TCP), with_(UDP, source='203.0.113.1'),
                              with_(UDP, fragment='first'),
                              with_(UDP, fragment='later')):
                    out.write(frame)
            found = self.json('explain', '--file', file.name)['packets']
            self.assertEqual(
                ['forwarded', 'drop_not_allowed', 'forwarded', 'forwarded'],
                [one['outcome'] for one in found])
            self.assertTrue(all(one['agrees'] for one in found))
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
        result = self.ctl('explain', 'udp', f'{CLIENT}:40000', f'{VIP}:53',
                          status=1)
        self.assertIn('DOES NOT DO WHAT THE TABLES SAY', result.stdout)
        self.assertIn('10.9.9.9', result.stdout)
