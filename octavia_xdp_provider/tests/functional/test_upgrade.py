# SPDX-License-Identifier: Apache-2.0
"""Libraries of different layouts hand the node to each other: needs root.

Packets with numbers go through the program all the while; each has to arrive
once, at the member that its flow has had from the start.
"""

import collections
import contextlib
import errno
import ipaddress
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.agent import takeover
from octavia_xdp_provider.tests.functional import test_datapath

OWN = test_datapath.library_path()
# Other sizes and orders; other formats, too; a program that is refused.
LAYOUTS = {number: str(test_datapath.BUILD /
                       f'layout-{number}/liboctavia_xdp.so')
           for number in (1001, 1002, 1003)}
CLIENT = '198.51.100.7'
OLD_FLOWS = range(20000, 20400)  # from before the change of members
NEW_FLOWS = range(30000, 30400)  # after it: in open slots remembered
RATE = 4000  # packets a second
FIRST_FRESH = 40000  # flows that begin meanwhile
MEMBERS = [f'10.1.0.{number}' for number in range(1, 9)]
ETHERNET = bytes.fromhex((test_datapath.OWN_MAC + test_datapath.GATEWAY_MAC)
                         .replace(':', '')) + b'\x08\x00'
REPLY = ETHERNET[6:12] + ETHERNET[:6]
SYN, ACK = 0x02, 0x10
SO_RCVBUFFORCE = 33  # asm-generic/socket.h; Python has no name for it


def tcp_frame(port, number, flags=ACK):
    payload = struct.pack('!Q', number)
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 48, 0, 0x4000, 64, 6, 0,
                       ipaddress.ip_address(CLIENT).packed,
                       ipaddress.ip_address(test_datapath.VIP).packed)
    words = sum(struct.unpack('!10H', head))
    words = (words >> 16) + (words & 0xffff)
    words += words >> 16
    head = head[:10] + struct.pack('!H', ~words & 0xffff) + head[12:]
    tcp = struct.pack('!HHIIBBHHH', port, 80, 1, 1, 0x50, flags, 1024, 0, 0)
    return ETHERNET + head + tcp + payload


class Stream:
    """Sends numbered packets of flows at a fixed rate, and takes them back.

    Reading is done by a thread with a large buffer, so that nothing that
    arrives can be missed.
    """

    def __init__(self, peer):
        self.peer = peer
        peer.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        peer.settimeout(0.2)
        self.sent = 0
        self.arrived = collections.Counter()
        self.members = collections.defaultdict(set)
        self._ports = [*OLD_FLOWS, *NEW_FLOWS]
        self._ending = threading.Event()
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._send),
                         threading.Thread(target=self._receive)]

    def send(self, port, flags=ACK):
        self.peer.send(tcp_frame(port, self.sent, flags))
        self.sent += 1

    def open_flows(self, ports):
        for port in ports:
            self.send(port, SYN)
            self.send(port)

    def _send(self):
        began, count = time.monotonic(), 0
        fresh = FIRST_FRESH
        while not self._ending.is_set():
            # on a busy machine less, rather than more than a queue holds
            due = min(int((time.monotonic() - began) * RATE), count + 50)
            while count < due:
                self.send(self._ports[count % len(self._ports)])
                count += 1
                # and flows that begin meanwhile
                if count % 10 == 0:
                    self.send(fresh, SYN)
                    self.send(fresh)
                    if fresh > FIRST_FRESH:
                        self.send(fresh - 1)
                    fresh = fresh + 1 if fresh < 60000 else FIRST_FRESH
            time.sleep(0.001)

    def _take(self):
        frame = self.peer.recv(2048)
        if frame[:12] != REPLY or len(frame) < 82 or frame[23] != 4:
            return
        inner = frame[34:]
        number, = struct.unpack('!Q', inner[40:48])
        port, = struct.unpack('!H', inner[20:22])
        self.arrived[number] += 1
        self.members[port].add(frame[30:34])

    def _receive(self):
        while True:
            try:
                self._take()
            except TimeoutError:
                if self._done.is_set():
                    return

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self._ending.set()
        self._threads[0].join()
        self._done.set()
        self._threads[1].join()


class UpgradeCase(test_datapath.TwoNamespaces):

    def setUp(self):
        super().setUp()
        for path in LAYOUTS.values():
            if not os.path.exists(path):
                self.skipTest('other layouts are not built '
                              '(make -C datapath other-layouts)')
        self.member_tool(self.peer, 'setup', '--any-source', 'gw0')
        self.libraries = {2: OWN, **LAYOUTS}
        self.layout = 2
        self.node_state = self.open()
        with self.inside(self.node):
            index = socket.if_nametoindex('up0')
            self.node_state.set_uplinks([datapath.Uplink(
                index, 1500, test_datapath.OWN_MAC,
                test_datapath.GATEWAY_MAC)])
            self.node_state.set_node(datapath.NodeSettings(test_datapath.NODE))
        self.set_members(self.node_state, MEMBERS)
        with self.inside(self.node):
            self.node_state.attach(index)

    def set_members(self, opened, addresses):
        opened.set_service(
            test_datapath.HTTP,
            [datapath.Member(address) for address in addresses],
            datapath.Settings(slots=test_datapath.SLOTS, idle_timeout=600,
                              allowed=('198.51.100.0/24', '2001:db8::/32')))
        opened.set_service(
            test_datapath.DNS,
            [datapath.Member(address) for address in addresses[:2]],
            datapath.Settings(slots=251, flags=datapath.ServiceFlag.QUIC))

    def upgrade(self, layout, **options):
        """By a library of this layout, from the one that has the node."""
        with self.inside(self.node):
            done = takeover.upgrade(
                self.pins, self.lock, self.libraries[layout],
                from_library=self.libraries[self.layout], **options)
        if not options.get('dry_run'):
            self.layout = layout
        return done

    def open_layout(self):
        return self.open(create=False, library=self.libraries[self.layout])

    def program(self):
        return test_datapath.command('ip', '-n', self.node, '-d', 'link',
                                     'show', 'up0')

    def state(self):
        with self.open_layout() as opened:
            return ([one._replace(generation=0)
                     for one in opened.services()],
                    opened.members(test_datapath.HTTP),
                    opened.table(test_datapath.HTTP),
                    opened.verify())


class TestStillNode(UpgradeCase):
    """Without packets: state is the same, failures change nothing."""

    def test_state_is_the_same_up_and_down(self):
        before = self.state()
        stored = self.exported()
        for layout in (1001, 1002, 2):
            self.upgrade(layout)
            self.assertEqual(before, self.state())
        self.assertEqual(stored, self.exported())
        self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))

    def exported(self):
        """The stream, without the number of waits in it."""
        with self.open_layout() as opened, open(
                os.path.join(os.path.dirname(self.lock), 'state'),
                'w+b') as file:
            opened._call('oxp_export', file.fileno())
            file.seek(0)
            return file.read()

    def test_dry_run_changes_nothing(self):
        before, program = self.exported(), self.program()
        done = self.upgrade(1001, dry_run=True)
        self.assertEqual((2, 1001, 2, 10),
                         (done.layout_before, done.layout_after,
                          done.services, done.members))
        self.assertEqual(8, done.maps_handed)
        self.assertEqual(11, done.maps_new)
        self.assertGreater(done.map_bytes, 1 << 20)
        self.assertEqual(1, len(done.interfaces))
        self.assertNotEqual(done.tag_before, done.tag_after)
        self.assertEqual((before, program), (self.exported(), self.program()))
        # this one is still the state of those who have it open
        self.assertEqual(2, self.node_state.info().services)
        self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))

    def test_program_that_does_not_load(self):
        before, program = self.exported(), self.program()
        text = None
        try:
            self.upgrade(1003)
        except datapath.DatapathError as error:
            text = error.text
        self.assertIn('cannot load', text or '')
        self.assertEqual((before, program), (self.exported(), self.program()))
        self.assertEqual(2, self.node_state.info().services)
        self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))

    def test_users_of_the_state_before_are_told(self):
        self.upgrade(1001)
        self.assert_fails(errno.ESTALE, self.node_state.info)
        self.assert_fails(errno.ESTALE, self.set_members, self.node_state,
                          MEMBERS)
        self.assert_fails(errno.EPROTO, self.open)

    def test_same_library_changes_nothing(self):
        program = self.program()
        done = self.upgrade(2)
        self.assertFalse(done.changes)
        self.assertEqual(done.tag_before, done.tag_after)
        self.assertEqual(program, self.program())

    def test_restarted_user_changes_nothing(self):
        before, program = self.exported(), self.program()
        self.node_state.close()
        with self.open() as again, self.inside(self.node):
            index = socket.if_nametoindex('up0')
            self.set_members(again, MEMBERS)
            again.attach(index)
        self.assertEqual((before, program), (self.exported(), self.program()))

    def test_library_is_not_there(self):
        with self.inside(self.node):
            text = self.assert_fails(
                errno.ELIBACC, takeover.upgrade, self.pins, self.lock,
                self.libraries[1001], from_library='/nonexistent.so')
        self.assertIn('layout 2', text)

    def test_nothing_is_pinned(self):
        self.assert_fails(errno.ENOENT, takeover.upgrade, self.pins + '-no',
                          self.lock, OWN)

    def test_tool(self):
        words = ['ip', 'netns', 'exec', self.node, sys.executable, '-m',
                 'octavia_xdp_provider.cmd.ctl', '--pin-directory', self.pins,
                 '--lock-file', self.lock, 'upgrade', '--library',
                 self.libraries[1001], '--from-library', OWN]
        text = test_datapath.command(*words, '--dry-run')
        self.assertIn('nothing was changed', text)
        self.assertIn('up0', text)
        done = json.loads(test_datapath.command(*words, '--json'))
        self.assertEqual((2, 1001, ['up0'], False),
                         (done['layout_before'], done['layout_after'],
                          done['interfaces'], done['dry_run']))
        self.layout = 1001
        self.assertEqual('', self.state()[3] or '')
        self.assertIn('nothing to do', test_datapath.command(*words))


class WithPackets(UpgradeCase):

    def setUp(self):
        super().setUp()
        self.stream = Stream(self.socket())
        self.stream.open_flows(OLD_FLOWS)
        # their slots are open now, and new flows are remembered
        self.set_members(self.node_state, MEMBERS[:6] + ['10.1.0.20'])
        self.assertTrue(self.node_state.service(
            test_datapath.HTTP).open_slots)
        # what was sent until now does not count: flows of the two members
        # that are gone have moved
        self.stream = Stream(self.socket())
        self.before = self.packets()
        self.stream.open_flows(NEW_FLOWS)

    def packets(self):
        with self.open_layout() as opened:
            service = opened.service(test_datapath.HTTP)
            return (service.counters.packets, sum(
                member.counters.packets
                for member in opened.members(test_datapath.HTTP)))

    def assert_nothing_lost(self, moved=0):
        missing = [number for number in range(self.stream.sent)
                   if self.stream.arrived[number] != 1]
        self.assertEqual([], missing[:10], f'{len(missing)} of '
                         f'{self.stream.sent}')
        several = [port for port, members in self.stream.members.items()
                   if len(members) != 1]
        self.assertEqual([], [port for port in several
                              if port < FIRST_FRESH])
        self.assertLessEqual(len(several), moved, several[:10])
        self.assertGreater(self.stream.sent, 1000)

    def assert_counted(self):
        after = self.packets()
        self.assertEqual([self.stream.sent] * 2,
                         [now - then for now, then in zip(
                             after, self.before, strict=True)])


class TestWithPackets(WithPackets):

    def run_upgrades(self, *layouts):
        with self.stream:
            time.sleep(0.3)
            for layout in layouts:
                self.upgrade(layout)
                time.sleep(0.3)

    def test_maps_are_handed_over(self):
        self.run_upgrades(1001, 2, 1001, 2)
        self.assert_nothing_lost()
        self.assert_counted()

    def test_maps_are_copied(self):
        # a flow whose second packet comes within the milliseconds between
        # the switch and the second copy is not remembered yet
        self.run_upgrades(1002, 2, 1002, 1001)
        self.assert_nothing_lost(moved=8)
        self.assert_counted()

    def test_failures(self):
        with self.stream:
            for _ in range(5):
                with contextlib.suppress(datapath.DatapathError):
                    self.upgrade(1003)
                self.upgrade(1001, dry_run=True)
        self.assert_nothing_lost()
        self.assert_counted()


CHILD = '''
import sys
from octavia_xdp_provider.agent import takeover
takeover.upgrade(*sys.argv[1:4], from_library=sys.argv[4])
'''


class TestDeath(WithPackets):
    """kill -9 of upgrades up and down."""

    ROUNDS = 25

    def child(self, layout, kill_at=0):
        return subprocess.Popen(
            ['ip', 'netns', 'exec', self.node, 'env',
             f'LD_PRELOAD={test_datapath.BUILD}/tests/kill_at.so',
             f'KILL_AT={kill_at}', sys.executable, '-c', CHILD,
             self.pins, self.lock, self.libraries[layout],
             self.libraries[self.layout]])

    def pinned_layout(self):
        with self.inside(self.node):
            for layout in (2, 1001):
                try:
                    self.open(create=False,
                              library=self.libraries[layout]).close()
                except datapath.DatapathError as error:
                    self.assertEqual(errno.EPROTO, error.errno, error)
                else:
                    return layout
        return self.fail('nothing can be opened')

    def after_death(self):
        """It is of use, and all interfaces use what is pinned."""
        self.layout = self.pinned_layout()
        with self.open_layout() as opened:
            self.assertEqual('', opened.verify() or '')
            opened.tick()
        self.assertFalse(self.upgrade(self.layout).changes)
        self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))

    def test_kill_before_every_step(self):
        """Every system call that changes something but single elements."""
        old_in_force = new_in_force = step = 0
        with self.stream:
            while True:
                step += 1
                target = 2 if self.layout == 1001 else 1001
                process = self.child(target, kill_at=step)
                if process.wait() == 0:
                    break
                self.assertEqual(-signal.SIGKILL, process.returncode)
                self.after_death()
                if self.layout == target:
                    new_in_force += 1
                else:
                    old_in_force += 1
        self.layout = self.pinned_layout()
        self.assertEqual(target, self.layout)
        self.assert_nothing_lost()
        self.assert_counted()
        # before and after the one moment
        self.assertGreater(old_in_force, 10)
        self.assertGreater(new_in_force, 5)

    def test_kill_anywhere(self):
        # how long one takes, undisturbed
        began = time.monotonic()
        process = self.child(1001)
        self.assertEqual(0, process.wait())
        whole = time.monotonic() - began
        self.layout = 1001
        outcomes = collections.Counter()
        with self.stream:
            for _ in range(self.ROUNDS):
                target = 2 if self.layout == 1001 else 1001
                process = self.child(target)
                time.sleep(whole * random.uniform(0.3, 1.1))
                process.send_signal(signal.SIGKILL)
                process.wait()
                self.after_death()
                outcomes[self.layout == target] += 1
        self.assert_nothing_lost()
        self.assert_counted()
        self.assertTrue(outcomes[False], outcomes)
