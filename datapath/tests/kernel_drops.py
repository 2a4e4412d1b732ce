#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test that octavia-xdp-drops shows real drops, each with its reason.

Two namespaces represent a client and a node, connected by three links. Needs
root, tracefs and bcc, but neither the kernel's headers nor the datapath.
"""

import ipaddress
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import kernel_support
from kernel_support import Namespace

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT, NODE = '198.18.10.1', '198.18.10.2'
CLIENT6, NODE6 = '2001:db8:1::1', '2001:db8:1::2'
VIP, VIP6 = kernel_support.VIP, '2001:db8::10'
PORT = 9999  # nobody listens
GUE_PORT = 6080
OUT = 77  # as in foreign.bpf.c
PACKETS = 3
PATIENCE_S = 200  # only a failing test waits that long

# Built by make test-programs.
PROGRAMS = ROOT / 'datapath/build/foreign.bpf.o'


class Tool:
    """octavia-xdp-drops in a namespace, and its output."""

    def __init__(self, namespace):
        with namespace.inside():
            self.process = subprocess.Popen(
                [sys.executable, '-m', 'octavia_xdp_provider.cmd.drops',
                 '--json', '--interval', '0.2', '--vip', VIP, '--vip', VIP6],
                cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.lines = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self.lines.append(None)
            self._changed.notify_all()

    def wait(self, function):
        """Return the first true function(line), from the last line on."""
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            seen = max(len(self.lines) - 1, 0)
            while True:
                for line in self.lines[seen:]:
                    if line is None:
                        raise AssertionError('octavia-xdp-drops has ended')
                    if result := function(line):
                        return result
                seen = len(self.lines)
                if not self._changed.wait(end - time.monotonic()):
                    raise AssertionError(f'not shown: {self.lines[-1:]}')

    def wait_for(self, **fields):
        """Wait for PACKETS in rows with these fields; return the total."""
        def total(line):
            return sum(row['total'] for row in line.get('drops', ())
                       if fields.items() <= row.items())
        return self.wait(lambda line: total(line) >= PACKETS and total(line))

    def close(self):
        self.process.terminate()
        status = self.process.wait(PATIENCE_S)
        self._reader.join()
        self.process.stdout.close()
        return status


def setUpModule():
    global client, node, tool
    client = Namespace('client')
    unittest.addModuleCleanup(client.delete)
    node = Namespace('node')
    unittest.addModuleCleanup(node.delete)
    for number in range(3):
        index = ['index', str(OUT)] if number == 2 else []
        node.ip('link', 'add', f'eth{number}', *index, 'type', 'veth',
                'peer', 'name', f'eth{number}', 'netns', client.name)
        # Leave no traffic but the test's.
        for host in (client, node):
            if number:
                host.sysctl(f'net.ipv6.conf.eth{number}.disable_ipv6', '1')
            host.ip('link', 'set', f'eth{number}', 'up')
    for host, address, address6 in ((client, CLIENT, CLIENT6),
                                    (node, NODE, NODE6)):
        host.ip('address', 'add', f'{address}/24', 'dev', 'eth0')
        host.ip('address', 'add', f'{address6}/64', 'dev', 'eth0', 'nodad')
    node.ip('link', 'set', 'lo', 'up')
    node.ip('address', 'add', f'{VIP}/32', 'dev', 'lo')
    node.ip('address', 'add', f'{VIP6}/128', 'dev', 'lo')
    node.sysctl('net.ipv4.conf.eth0.rp_filter', '1')
    client.ip('route', 'add', f'{VIP}/32', 'via', NODE)
    client.ip('route', 'add', f'{VIP6}/128', 'via', NODE6)
    # The node's eth2 can send longer frames than its peer accepts.
    client.ip('link', 'set', 'eth2', 'mtu', '600')
    tool = Tool(node)
    unittest.addModuleCleanup(tool.close)
    tool.wait(lambda line: line['type'] == 'start')


def tearDownModule():
    if tool.close():
        raise AssertionError(f'exit status {tool.process.returncode}')
    if [tool.lines[-2]['type'], tool.lines[-2]['why']] != ['end', 'signal']:
        raise AssertionError(f'not its end: {tool.lines[-2]}')


def send(destination, count=PACKETS):
    family = (socket.AF_INET6 if ipaddress.ip_address(destination).version
              == 6 else socket.AF_INET)
    # One socket per packet: after an ICMP error a socket refuses the next.
    for _ in range(count):
        with client.socket(family, socket.SOCK_DGRAM) as sender:
            sender.sendto(b'x', (destination, PORT))


def send_frames(interface, packet):
    with client.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((interface, 0))
        frame = (node.mac(interface) + client.mac(interface) +
                 struct.pack('!H', kernel_support.ETH_P_IP) + packet)
        for _ in range(PACKETS):
            wire.send(frame)


class StackTest(unittest.TestCase):

    def test_datagram_without_a_socket_is_shown(self):
        send(NODE)  # no VIP: not to be shown
        send(VIP)
        self.assertEqual(PACKETS, tool.wait_for(
            source='kernel', vip=VIP, direction='to', protocol='UDP',
            encapsulation=None, reason='NO_SOCKET', interface='eth0',
            namespace=None))
        rows = tool.wait(lambda line: line.get('drops'))
        self.assertLessEqual({row['vip'] for row in rows}, {VIP, VIP6, None})

    def test_datagram_without_a_socket_is_shown_over_ipv6(self):
        send(VIP6)
        self.assertEqual(PACKETS, tool.wait_for(
            source='kernel', vip=VIP6, direction='to', protocol='UDP',
            encapsulation=None, reason='NO_SOCKET', interface='eth0'))

    def test_packet_without_a_route_back_is_shown(self):
        # The node has no route to the client of the packet.
        send_frames('eth0', kernel_support.udp(b'x'))
        self.assertEqual(PACKETS, tool.wait_for(
            source='kernel', vip=VIP, direction='to', protocol='UDP',
            encapsulation=None, reason='IP_RPFILTER', interface='eth0'))

    def test_vip_inside_of_each_outer_header_is_shown(self):
        four = kernel_support.udp(b'x')
        gre = struct.pack('!HH', 0, kernel_support.ETH_P_IP)
        gue = struct.pack('!HHHH', 50000, GUE_PORT, 8 + len(four), 0)
        six = struct.pack('!IHBB', 6 << 28, 8, socket.IPPROTO_UDP, 64) + (
            socket.inet_pton(socket.AF_INET6, CLIENT6) +
            socket.inet_pton(socket.AF_INET6, VIP6) +
            struct.pack('!HHHH', 50000, PORT, 8, 0))
        for protocol, payload, name, vip in (
                (socket.IPPROTO_IPIP, four, 'IPIP', VIP),
                (socket.IPPROTO_IPV6, six, 'IPV6', VIP6),
                (socket.IPPROTO_GRE, gre + four, 'GRE', VIP),
                (socket.IPPROTO_UDP, gue + four, 'UDP', VIP)):
            with self.subTest(name):
                # The node has no route to the outer source.
                send_frames('eth0', kernel_support.ipv4(
                    kernel_support.CLIENT, NODE, protocol, payload))
                self.assertEqual(PACKETS, tool.wait_for(
                    source='kernel', vip=vip, direction='to',
                    protocol='UDP', encapsulation=name,
                    reason='IP_RPFILTER', interface='eth0'))


class XdpTest(unittest.TestCase):

    def attach(self, namespace, interface, name):
        namespace.ip('link', 'set', interface, 'xdpdrv', 'object',
                     str(PROGRAMS), 'program', name)
        self.addCleanup(namespace.ip, 'link', 'set', interface, 'xdpdrv',
                        'off')

    def test_aborting_program_is_shown(self):
        self.attach(node, 'eth1', 'abort_all')
        send_frames('eth1', kernel_support.udp(b'x'))
        self.assertEqual(PACKETS, tool.wait_for(
            source='xdp', where='xdp_exception', reason='XDP_ABORTED',
            interface='eth1', program='abort_all', vip=None))

    def test_failed_redirect_is_shown(self):
        self.attach(node, 'eth1', 'to_nowhere')
        send_frames('eth1', kernel_support.udp(b'x'))
        self.assertEqual(PACKETS, tool.wait_for(
            source='xdp', where='xdp_redirect_err', reason='EINVAL',
            action='XDP_REDIRECT', interface='eth1', program='to_nowhere'))

    def test_frame_too_long_for_the_next_device_is_shown(self):
        self.attach(client, 'eth2', 'pass_all')
        self.attach(node, 'eth1', 'to_out')
        send_frames('eth1', kernel_support.udp(bytes(1000)))
        self.assertEqual(PACKETS, tool.wait_for(
            source='xdp', where='xdp_devmap_xmit', reason='NO_ERROR_GIVEN',
            interface='eth1', to_ifindex=OUT))


class EnvironmentTest(unittest.TestCase):

    def test_missing_tracefs_is_named_with_the_command_that_mounts_it(self):
        # Its /sys is mounted again, as by "ip netns exec".
        done = subprocess.run(
            ['unshare', '--mount', '--propagation', 'private', 'sh', '-ec',
             'umount --lazy /sys; mount -t sysfs sysfs /sys; exec "$@"',
             'sh', sys.executable, '-m', 'octavia_xdp_provider.cmd.drops',
             '--vip', VIP],
            cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual((3, ''), (done.returncode, done.stdout))
        self.assertIn('octavia-xdp-drops: tracefs is not mounted: run '
                      '"mount -t tracefs tracefs /sys/kernel/tracing"\n',
                      done.stderr)
        self.assertNotIn('Traceback', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
