# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl on a node in a network namespace: needs root."""

import ctypes
import dataclasses
import json
import mmap
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

from scapy import utils
from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.agent import inspection
from octavia_xdp_provider.ctl import explain
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import rates
from octavia_xdp_provider.tests.functional import test_datapath as base

VIP, VIP_V6 = '192.0.2.1', '2001:db8::1'
CLIENT, CLIENT_V6 = '198.51.100.7', '2001:db8:7::7'
HTTP = datapath.Key(VIP, 'TCP', 80)
DNS = datapath.Key(VIP, 'UDP', 53)
HTTP_V6 = datapath.Key(VIP_V6, 'TCP', 80)
TCP = packet.Wanted('tcp', CLIENT, VIP, 40000, 80)
UDP = packet.Wanted('udp', CLIENT, VIP, 40000, 53)
TCP_V6 = packet.Wanted('tcp', CLIENT_V6, VIP_V6, 40000, 80)
# Far above what it takes.
SOON = 60
Outcome = datapath.Outcome


def with_(wanted, **more):
    return packet.frame(dataclasses.replace(wanted, **more))


class Node(base.TwoNamespaces):

    def setUp(self):
        super().setUp()
        # any program does: it must only have one (see the base class)
        self.member_tool(self.peer, 'attach', '--address', '127.0.0.2', 'gw0')
        self.datapath = inspection.Inspection(
            self.pins, self.lock, create=True, services_max=16,
            members_max=64, slots_max=base.SLOTS, flows_max=1024,
            library=base.library_path())
        self.addCleanup(self.datapath.close)
        with self.inside(self.node):
            self.ifindex = socket.if_nametoindex('up0')
            self.datapath.set_uplinks([datapath.Uplink(
                self.ifindex, 1500, base.OWN_MAC, base.GATEWAY_MAC,
                base.GATEWAY_MAC)])
            self.datapath.attach(self.ifindex)
        self.datapath.set_node(datapath.NodeSettings(
            '10.0.0.0', 'fd00::1', entropy_v4=4, icmp_rate=1000,
            flags=datapath.NodeFlag.ECHO | datapath.NodeFlag.CLAMP_MSS))
        self.set(HTTP, ['10.1.0.1', '10.1.0.2'])
        self.set(DNS, ['10.1.0.3'], allowed=('198.51.100.0/24',),
                 encapsulation=datapath.Encapsulation.GUE)
        self.set(HTTP_V6, ['10.1.0.4', 'fd00:1::1'])

    def set(self, key, members, **settings):
        self.datapath.set_service(
            key, [datapath.Member(address) for address in members],
            datapath.Settings(slots=base.SLOTS, **settings))

    def words(self, *words):
        return ['ip', 'netns', 'exec', self.node, sys.executable, '-W',
                'ignore', '-m', 'octavia_xdp_provider.cmd.ctl',
                '--pin-directory', self.pins, '--lock-file', self.lock,
                '--library', base.library_path(), *words]

    def ctl(self, *words, status=0):
        result = subprocess.run(self.words(*words), text=True,
                                capture_output=True, timeout=SOON)
        self.assertEqual(status, result.returncode,
                         result.stdout + result.stderr)
        return result

    def json(self, *words):
        return json.loads(self.ctl(*words, '--json').stdout)

    def tables(self):
        """The pinned map of tables: (memory, bytes of a block)."""
        path = os.path.join(self.pins, 'maps', 'tables')
        shown = json.loads(base.command('bpftool', '-j', 'map', 'show',
                                        'pinned', path))
        library = ctypes.CDLL('libbpf.so.1', use_errno=True)
        descriptor = library.bpf_obj_get(path.encode())
        self.assertGreaterEqual(descriptor, 0)
        self.addCleanup(os.close, descriptor)
        memory = mmap.mmap(descriptor,
                           shown['bytes_value'] * shown['max_entries'])
        return memory, shown['bytes_value']


class TestShow(Node):

    def test_services_and_members(self):
        self.assertEqual(
            [(VIP, 'TCP', 80, 2, 'ipip'), (VIP, 'UDP', 53, 1, 'gue'),
             (VIP_V6, 'TCP', 80, 2, 'ipip')],
            [(one['vip'], one['protocol'], one['port'], one['members'],
              one['encapsulation']) for one in self.json('show', 'services')])
        self.assertEqual(['10.1.0.4', 'fd00:1::1'], sorted(
            one['address'] for one in self.json(
                'show', 'members', '--vip', VIP_V6)))
        text = self.ctl('show', 'members', '--protocol', 'udp').stdout
        self.assertIn('10.1.0.3', text)
        self.assertNotIn('10.1.0.1', text)

    def test_tables(self):
        self.set(HTTP, ['10.1.0.1', '10.1.0.2', '10.1.0.5'])
        shown, = self.json('show', 'tables', '--vip', VIP, '--port', '80')
        self.assertEqual(base.SLOTS, sum(
            one['slots'] for one in shown['members']))
        self.assertEqual([one['slots'] for one in shown['members']], [
            self.datapath.table(HTTP).count(address)
            for address in ('10.1.0.1', '10.1.0.2', '10.1.0.5')])
        self.assertEqual(self.datapath.service(HTTP).open_slots,
                         shown['open_slots'])
        self.assertGreater(shown['open_slots'], 0)
        self.assertEqual(0, shown['members'][2]['slots_before'])
        self.assertIn(f'{shown["open_slots"]} open',
                      self.ctl('show', 'tables').stdout)

    def test_neighbours_and_programs(self):
        base.command('ip', '-n', self.node, 'neighbour', 'add',
                     '198.18.0.1', 'lladdr', base.GATEWAY_MAC, 'dev', 'up0')
        v4, v6 = self.json('show', 'neighbours')
        self.assertEqual(('up0', base.GATEWAY_MAC, 100.0), (
            v4['interface'], v4['gateway_mac'], v4['flows_percent']))
        self.assertEqual([{'address': '198.18.0.1', 'state': 'permanent',
                           'interface': 'up0'}], v4['kernel'])
        self.assertEqual([], v6['kernel'])
        self.assertIn('198.18.0.1 permanent',
                      self.ctl('show', 'neighbours').stdout)
        shown = self.json('show', 'programs')
        one, = shown['programs']
        link = base.command('ip', '-n', self.node, '-d', 'link', 'show',
                            'up0')
        self.assertIn(f'prog/xdp id {one["id"]} ', link)
        self.assertEqual(('up0', 'driver', 'oxp_forward'), (
            one['interface'], one['mode'], one['name']))
        self.assertIn(one['tag'], self.ctl('show', 'programs').stdout)

    def test_settings_and_counters(self):
        shown = self.json('show', 'settings')
        self.assertEqual(('10.0.0.0', 4, ['echo', 'clamp_mss']), (
            shown['node']['source_v4'], shown['node']['entropy_v4'],
            shown['node']['flags']))
        self.assertEqual([None, ['198.51.100.0/24'], None],
                         [one['allowed'] for one in shown['services']])
        self.assertIn('198.51.100.0/24', self.ctl('show', 'settings').stdout)
        with self.inside(self.node):
            self.datapath.run([(with_(TCP), self.ifindex),
                               (with_(UDP, source='192.0.2.9'),
                                self.ifindex)])
        shown = self.json('show', 'counters', '--vip', VIP)
        self.assertEqual(1, shown['outcomes']['drop_not_allowed'])
        self.assertEqual([1, 0], [one['packets']
                                  for one in shown['services']])
        self.assertIn('drop_not_allowed', self.ctl('show', 'counters').stdout)


class TestVerify(Node):

    def test_right(self):
        self.assertIn('3 services', self.ctl('verify').stdout)

    def test_wrong(self):
        memory, size = self.tables()
        index = self.datapath.service(DNS).index
        slots = size - 4 * 1024  # those and `before`, rounded to 32 each
        for block in (2 * index, 2 * index + 1):
            place = block * size + slots + 2 * 5
            memory[place:place + 2] = b'\xff\x7f'
        result = self.json_with(1, 'verify')
        self.assertEqual([(VIP, 'UDP', 53)], [
            (one['vip'], one['protocol'], one['port'])
            for one in result['faults']])
        self.assertIn('53', self.ctl('verify', status=1).stdout)

    def json_with(self, status, *words):
        return json.loads(self.ctl(*words, '--json', status=status).stdout)

    def test_nothing_there(self):
        self.datapath.destroy()
        self.assertIn('no datapath', self.ctl('verify', status=2).stderr)


class TestExplain(Node):
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
        counted = {one: after[0][one] - before[0][one] for one in after[0]
                   if after[0][one] > before[0][one]}
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
        # Frames of the stack on the peer's side are no answers.
        sent = [data for data in answers if data == found.run.frame]
        self.assertEqual(found.run.action == explain.TX, len(sent) == 1,
                         (found.text(), found.run.frame.hex(),
                          [data.hex() for data in answers]))
        return found

    def test_forwarded(self):
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

    def test_passed(self):
        self.check(with_(TCP, destination='192.0.2.77'), Outcome.PASS)
        self.check(with_(TCP, destination_port=8080), Outcome.PASS)
        self.check(bytes(l2.Ether(dst=base.OWN_MAC) / l2.ARP()),
                   Outcome.PASS)

    def test_answered(self):
        self.check(with_(packet.Wanted('icmp', CLIENT, VIP), length=90),
                   Outcome.ECHO_REPLY)
        self.check(with_(packet.Wanted('icmp', CLIENT_V6, VIP_V6)),
                   Outcome.ECHO_REPLY)
        self.check(with_(TCP, length=1481), Outcome.SENT_TOO_BIG)
        self.check(with_(TCP_V6, length=1481), Outcome.SENT_TOO_BIG)

    def test_dropped(self):
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

    def test_rate(self):
        frame = with_(TCP, destination_port=82, syn=True)
        first, second = self.explain(frame, frame)
        self.assertEqual((Outcome.FORWARDED, Outcome.DROP_RATE),
                         (first.outcome, second.outcome))
        self.assertEqual(([], []), (first.differences, second.differences))
        # the rehearsal took no token of the node's
        self.check(frame, Outcome.FORWARDED)

    def test_fragments(self):
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

    def test_icmp_errors(self):
        link = l2.Ether(dst=base.OWN_MAC, src=base.GATEWAY_MAC)
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

    def test_open_slots(self):
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
            steps = dict(self.explain(frame)[0].decision.steps)
            self.assertIn('confirmed', steps['remembered'])
            if moved == 3:
                break
        self.assertEqual(3, moved)
        self.assertNotEqual(now, before)

    def test_command(self):
        text = self.ctl('explain', 'tcp', f'{CLIENT}:40000', f'{VIP}:80',
                        '--syn').stdout
        self.assertIn('FORWARDED, XDP_TX', text)
        self.ctl('explain', 'tcp', CLIENT, f'{VIP}:80', status=2)
        self.ctl('explain', 'tcp', f'{CLIENT}:1', f'{VIP}:80',
                 '--interface', 'nowhere', status=2)

    def test_file(self):
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

    def test_disagreement(self):
        memory, _size = self.tables()
        raw, wrong = socket.inet_aton('10.1.0.3'), socket.inet_aton('10.9.9.9')
        place, changed = memory.find(raw), 0
        while place >= 0:
            # where packets go; the member's own address follows
            if memory[place + 24:place + 28] == raw:
                memory[place:place + 4] = wrong
                changed += 1
            place = memory.find(raw, place + 4)
        self.assertGreater(changed, 0)
        result = self.ctl('explain', 'udp', f'{CLIENT}:40000', f'{VIP}:53',
                          status=1)
        self.assertIn('DOES NOT DO WHAT THE TABLES SAY', result.stdout)
        self.assertIn('10.9.9.9', result.stdout)


class TestTop(Node):

    def test_rates(self):
        meter = rates.Meter(self.datapath)
        with self.inside(self.node):
            self.datapath.run([(with_(TCP, syn=True), self.ifindex)] * 30
                              + [(with_(UDP), self.ifindex)] * 50
                              + [(with_(TCP, source='127.0.0.1'),
                                  self.ifindex)] * 5)
        view = meter.view('packets', 2)
        self.assertEqual(
            [(DNS, 50, 0), (HTTP, 30, 30)],
            [(row.name, round(row.packets * view.seconds),
              round(row.flows * view.seconds)) for row in view.rows])
        self.assertEqual(('DROP_MARTIAN', 5), view.outcomes[0][::2])
        self.assertEqual(80, round(view.total.packets * view.seconds))

    def test_batch(self):
        found = self.json('top', '--batch', '-n', '1', '--interval', '0.1')
        self.assertEqual(3, found['services'])
        text = self.ctl('top', '--batch', '-n', '2', '--interval', '0.1',
                        '--rows', '1').stdout
        self.assertEqual(2, text.count('TCP 192.0.2.1:80'))
        self.assertNotIn('UDP', text)
        self.assertIn('--batch', self.ctl('top', status=2).stderr)

    def test_screen(self):
        """In a terminal: services, members of one, and the end."""
        process, terminal = pty.fork()
        if not process:
            os.environ['TERM'] = 'xterm'
            words = self.words('top', '--interval', '0.2')
            os.execvp(words[0], words)
        self.addCleanup(os.close, terminal)
        seen = b''

        def expect(what):
            nonlocal seen
            end = time.monotonic() + SOON
            while what not in seen:
                ready, _, _ = select.select([terminal], [], [], 1)
                self.assertLess(time.monotonic(), end, seen)
                if ready:
                    try:
                        seen += os.read(terminal, 65536)
                    except OSError:
                        self.fail(seen)
            seen = b''
        try:
            expect(b'PACKETS/S')
            os.write(terminal, b'\n')
            expect(b'10.1.0.2')
            os.write(terminal, b'q')
            _pid, status = os.waitpid(process, 0)
            process = None
        finally:
            if process:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        self.assertEqual(0, os.waitstatus_to_exitcode(status))


class TestTrace(Node):

    def setUp(self):
        super().setUp()
        try:
            self.datapath.trace(VIP).close()
        except datapath.DatapathError as error:
            if error.errno != 1:
                raise
            self.skipTest(f'this kernel lets nobody trace: {error.text}')
        self.wait_traced(0)

    def traced(self):
        """Programs of traces, with the links that hold them."""
        programs = [one for one in json.loads(base.command(
            'bpftool', '-j', 'prog', 'show'))
            if one.get('name', '').startswith('oxp_trace')]
        ids = {one['id'] for one in programs}
        return len(programs), len([one for one in json.loads(base.command(
            'bpftool', '-j', 'link', 'show') or '[]')
            if one.get('prog_id') in ids])

    def wait_traced(self, count):
        end = time.monotonic() + SOON
        while self.traced() != (count, count):
            self.assertLess(time.monotonic(), end, self.traced())
            time.sleep(0.05)

    def start(self, *words, stdout=subprocess.DEVNULL):
        process = subprocess.Popen(
            self.words('trace', *words), stdout=stdout,
            stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if b'tracing' in line:
                return process
        self.fail(f'it ended with {process.wait()}')

    def send(self, *frames):
        with self.inside(self.node):
            return self.datapath.run([(frame, self.ifindex)
                                      for frame in frames])

    def test_file(self):
        frames = [with_(TCP, syn=True, length=400),
                  with_(TCP, source='127.0.0.1'), with_(UDP)]
        with tempfile.NamedTemporaryFile(suffix='.pcapng') as file:
            process = self.start(VIP, '-w', file.name, '--count', '3',
                                 '--snaplen', '100')
            self.assertEqual((2, 2), self.traced())
            results = self.send(with_(TCP_V6), *frames, with_(UDP))[1:4]
            self.assertEqual(0, process.wait(SOON))
            reader = utils.PcapNgReader(file.name)
            seen = list(reader)
            reader.close()
        self.assertEqual(6, len(seen))
        for frame, (action, out), first, second in zip(
                frames, results, seen[::2], seen[1::2], strict=True):
            self.assertEqual((frame[:100], out[:100]),
                             (first.original, second.original))
            self.assertEqual((len(frame), len(out)),
                             (first.wirelen, second.wirelen))
            self.assertEqual(('up0@in', 1, 'up0@out', 2), (
                first.sniffed_on, first.direction, second.sniffed_on,
                second.direction))
            self.assertEqual(explain.ACTIONS[action].encode(),
                             second.comment)
            self.assertLess(abs(float(first.time) - time.time()), 3600)
        self.wait_traced(0)

    def test_pipe_and_ipv6(self):
        process = self.start(VIP_V6, '-w', '-', '--count', '1',
                             stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.send(with_(TCP), with_(TCP_V6))
        seen = list(utils.PcapNgReader(process.stdout))
        self.assertEqual(0, process.wait(SOON))
        self.assertEqual(with_(TCP_V6), seen[0].original)
        self.assertEqual(2, len(seen))

    def test_text_until_it_is_told_to_end(self):
        process = self.start(VIP, '--seconds', '86400',
                             stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.send(with_(TCP))
        lines = [process.stdout.readline().decode() for _side in range(2)]
        self.assertIn(f'up0 in  TCP {CLIENT}:40000 -> {VIP}:80', lines[0])
        self.assertIn('up0 out XDP_TX', lines[1])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(SOON))
        self.wait_traced(0)

    def test_nothing_stays_after_a_kill(self):
        process = self.start(VIP)
        self.assertEqual((2, 2), self.traced())
        self.send(with_(TCP))
        process.kill()
        process.wait(SOON)
        self.wait_traced(0)
        self.assertEqual(explain.TX, self.send(with_(TCP))[0][0])

    def test_our_own_files_are_explained(self):
        with tempfile.NamedTemporaryFile(suffix='.pcapng') as file:
            process = self.start(VIP, '-w', file.name, '--count', '2')
            self.send(with_(TCP), with_(UDP))
            self.assertEqual(0, process.wait(SOON))
            result = self.ctl('explain', '--file', file.name, '--json')
        found = json.loads(result.stdout)['packets']
        self.assertEqual(['forwarded'] * 2, [one['outcome'] for one in found])
        self.assertIn('2 packets that went out', result.stderr)


class TestTraceRefused(Node):

    def test_no_program(self):
        with self.inside(self.node):
            self.datapath.detach(self.ifindex)
        self.assertIn('no interface',
                      self.ctl('trace', VIP, status=2).stderr)
