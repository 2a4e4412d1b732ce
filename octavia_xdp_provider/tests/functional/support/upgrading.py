# SPDX-License-Identifier: Apache-2.0
"""A node whose program and tables are taken over as packets flow.

Packets with numbers go through the program all the while; each has to arrive
once, at the member that its flow has had from the start.
"""

import collections
import ipaddress
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import typing

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import upgrade
from octavia_xdp_provider.tests.functional.support import private_node

LAYOUT = 10  # OXP_LAYOUT of the library under test
OWN = private_node.library_path()
# Other sizes and orders; other formats, too; a program that is refused.
LAYOUTS = {number: str(private_node.BUILD /
                       f'layout-{number}/liboctavia_xdp.so')
           for number in (1001, 1002, 1003)}
CLIENT = '198.51.100.7'
OLD_FLOWS = range(20000, 20400)  # from before the change of members
NEW_FLOWS = range(30000, 30400)  # after it: in open slots remembered
RATE = 4000  # packets a second
FIRST_FRESH = 40000  # flows that begin meanwhile
MEMBERS = [f'10.1.0.{number}' for number in range(1, 9)]
SYN, ACK = 0x02, 0x10
SO_RCVBUFFORCE = 33  # asm-generic/socket.h; Python has no name for it


CHILD = '''
import sys
from octavia_xdp_provider.node import upgrade
upgrade.upgrade(*sys.argv[1:4], from_library=sys.argv[4],
                 dry_run=bool(sys.argv[5]))
'''


class Uplink(typing.NamedTuple):
    """An interface of the node and its other end."""
    number: int

    @property
    def name(self):
        return f'up{self.number}'

    @property
    def peer(self):
        return f'gw{self.number}'

    @property
    def own_mac(self):
        return private_node.OWN_MAC[:-2] + f'{self.number}1'

    @property
    def gateway_mac(self):
        return private_node.NEXT_HOP_MAC[:-2] + f'{self.number}2'

    def ethernet(self, to_node=True):
        macs = [self.own_mac, self.gateway_mac]
        if not to_node:
            macs.reverse()
        return bytes.fromhex(''.join(macs).replace(':', '')) + b'\x08\x00'


def tcp_packet(port, number, flags=ACK):
    payload = struct.pack('!Q', number)
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 48, 0, 0x4000, 64, 6, 0,
                       ipaddress.ip_address(CLIENT).packed,
                       ipaddress.ip_address(private_node.VIP).packed)
    words = sum(struct.unpack('!10H', head))
    words = (words >> 16) + (words & 0xffff)
    words += words >> 16
    head = head[:10] + struct.pack('!H', ~words & 0xffff) + head[12:]
    tcp = struct.pack('!HHIIBBHHH', port, 80, 1, 1, 0x50, flags, 1024, 0, 0)
    return head + tcp + payload


class Stream:
    """Sends numbered packets of flows at a fixed rate, and takes them back.

    Each flow comes in by one uplink; packets may leave by any. Reading is
    done by threads with large buffers, so that nothing that arrives can be
    missed.
    """

    def __init__(self, peers):
        """:param peers: sockets at the other ends of uplinks."""
        self._peers = list(peers.items())
        for peer in peers.values():
            peer.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
            peer.settimeout(0.2)
        # All; by uplinks that they came in and went out by.
        self.sent = 0
        self.inward = collections.Counter()
        self.outward = collections.Counter()
        self.arrived = collections.Counter()
        self.members = collections.defaultdict(set)
        self._ports = [*OLD_FLOWS, *NEW_FLOWS]
        self._ending = threading.Event()
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send)] + [
            threading.Thread(target=self._receive, args=ends)
            for ends in self._peers]

    def send(self, port, flags=ACK):
        uplink, peer = self._peers[port % len(self._peers)]
        peer.send(uplink.ethernet() + tcp_packet(port, self.sent, flags))
        self.sent += 1
        self.inward[uplink] += 1

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

    def _take(self, uplink, peer):
        frame = peer.recv(2048)
        if (frame[:14] != uplink.ethernet(to_node=False) or
                len(frame) < 82 or frame[23] != 4):
            return
        inner = frame[34:]
        number, = struct.unpack('!Q', inner[40:48])
        port, = struct.unpack('!H', inner[20:22])
        with self._lock:
            self.arrived[number] += 1
            self.outward[uplink] += 1
            self.members[port].add(frame[30:34])

    def _receive(self, uplink, peer):
        while True:
            try:
                self._take(uplink, peer)
            except TimeoutError:
                if self._done.is_set():
                    return
            except OSError:
                # its interface is gone, or not there yet
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
        for thread in self._threads[1:]:
            thread.join()


class UpgradeCase(private_node.TwoNamespaces):

    UPLINKS = 1

    def setUp(self):
        super().setUp()
        self.uplinks = [Uplink(number) for number in range(self.UPLINKS)]
        for uplink in self.uplinks[1:]:
            self.add_interface(uplink)
        for path in LAYOUTS.values():
            if not os.path.exists(path):
                self.skipTest('other layouts are not built '
                              '(make -C datapath other-layouts)')
        for uplink in self.uplinks:
            self.member_tool(self.peer, 'setup', '--any-source', uplink.peer)
        self.libraries = {LAYOUT: OWN, **LAYOUTS}
        self.layout = LAYOUT
        self.node_state = self.open()
        self.set_uplinks(self.node_state)
        self.node_state.set_node(datapath.NodeSettings(private_node.NODE))
        self.set_members(self.node_state, MEMBERS)
        for uplink in self.uplinks:
            self.attach(self.node_state, uplink)

    def add_interface(self, uplink):
        private_node.veth((self.node, uplink.name, uplink.own_mac),
                          (self.peer, uplink.peer, uplink.gateway_mac))
        for name, interface in ((self.node, uplink.name),
                                (self.peer, uplink.peer)):
            private_node.command('ip', '-n', name, 'link', 'set', interface,
                                  'up')

    def index(self, uplink):
        with self.inside(self.node):
            return socket.if_nametoindex(uplink.name)

    def set_uplinks(self, opened):
        wanted = [datapath.Uplink(self.index(uplink), 1500, uplink.own_mac,
                                  uplink.gateway_mac)
                  for uplink in self.uplinks]
        with self.inside(self.node):
            opened.set_uplinks(wanted)

    def attach(self, opened, uplink):
        index = self.index(uplink)
        with self.inside(self.node):
            opened.attach(index)

    def peers(self):
        sockets = {}
        for uplink in self.uplinks:
            with self.inside(self.peer):
                opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                       socket.htons(0x0800))
                opened.bind((uplink.peer, 0x0800))
            self.addCleanup(opened.close)
            sockets[uplink] = opened
        return sockets

    def set_members(self, opened, addresses):
        opened.set_service(
            private_node.HTTP,
            [datapath.Member(address) for address in addresses],
            datapath.Settings(slots=private_node.SLOTS, idle_timeout_s=600,
                              allowed=('198.51.100.0/24', '2001:db8::/32')))
        opened.set_service(
            private_node.DNS,
            [datapath.Member(address) for address in addresses[:2]],
            datapath.Settings(slots=251, flags=datapath.ServiceFlag.QUIC))

    def upgrade(self, layout, **options):
        """By a library of this layout, from the one that has the node."""
        with self.inside(self.node):
            done = upgrade.upgrade(
                self.pins, self.lock, self.libraries[layout],
                from_library=self.libraries[self.layout], **options)
        if not options.get('dry_run'):
            self.layout = layout
        return done

    def python(self, code, *arguments, **environment):
        """A process in the node's namespace, with the node's paths."""
        process = subprocess.Popen(
            ['ip', 'netns', 'exec', self.node, 'env',
             *(f'{name}={value}' for name, value in environment.items()),
             sys.executable, '-c', code, self.pins, self.lock,
             *map(str, arguments)],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        process.kill()
        process.communicate()

    def child(self, layout, kill_at=0, link_updates='', dry_run=False):
        """upgrade() in a process of its own, disturbed by inject.c."""
        return self.python(
            CHILD, self.libraries[layout], self.libraries[self.layout],
            dry_run or '', KILL_AT=kill_at, LINK_UPDATES=link_updates,
            LD_PRELOAD=f'{private_node.BUILD}/tests/inject.so')

    def child_output(self, layout, **options):
        process = self.child(layout, **options)
        out, text = process.communicate()
        return process.returncode, out, text

    def wait_until_stopped(self, process):
        state = os.waitid(os.P_PID, process.pid,
                          os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.assertEqual(os.CLD_STOPPED, state.si_code,
                         state.si_code != os.CLD_STOPPED and
                         process.communicate())

    def tool_words(self, layout, *words):
        return ['ip', 'netns', 'exec', self.node, sys.executable, '-m',
                'octavia_xdp_provider.cmd.ctl', '--pin-directory', self.pins,
                '--lock-file', self.lock, 'upgrade', '--library',
                self.libraries[layout], '--from-library',
                self.libraries[self.layout], *words]

    def open_layout(self):
        return self.open(create=False, library=self.libraries[self.layout])

    def program(self):
        return [private_node.command('ip', '-n', self.node, '-d', 'link',
                                      'show', uplink.name)
                for uplink in self.uplinks]

    def state(self):
        with self.open_layout() as opened:
            return ([service._replace(generation=0)
                     for service in opened.services()],
                    opened.members(private_node.HTTP),
                    opened.table(private_node.HTTP),
                    opened.faults())


class WithPackets(UpgradeCase):

    def setUp(self):
        super().setUp()
        self.stream = Stream(self.peers())
        self.stream.open_flows(OLD_FLOWS)
        # their slots are open now, and new flows are remembered
        self.set_members(self.node_state, MEMBERS[:6] + ['10.1.0.20'])
        self.assertTrue(self.node_state.service(
            private_node.HTTP).open_slots)
        # what was sent until now does not count: flows of the two members
        # that are gone have moved
        self.stream = Stream(self.peers())
        self.before = self.packets()
        self.stream.open_flows(NEW_FLOWS)

    def packets(self):
        with self.open_layout() as opened:
            service = opened.service(private_node.HTTP)
            return (service.counters.packets, sum(
                member.counters.packets
                for member in opened.members(private_node.HTTP)))

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
        for uplink in self.uplinks:
            self.assertGreater(self.stream.inward[uplink],
                               1000 / self.UPLINKS)
            self.assertGreater(self.stream.outward[uplink], 100)

    def assert_counted(self):
        after = self.packets()
        self.assertEqual([self.stream.sent] * 2,
                         [now - then for now, then in zip(
                             after, self.before, strict=True)])
