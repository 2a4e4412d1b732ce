# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-drops beside a real datapath: needs root."""

import json
import os
import signal
import socket
import subprocess
import sys

import fixtures
import testtools

from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import private_node

VIP = private_node.VIP
PACKETS = 3
# Readings of 0.2 seconds that a failing test waits.
READINGS = 300
# tracefs in a mount namespace of its own, wherever that is on this machine.
WITH_TRACEFS = ('unshare', '--mount', '--propagation', 'private', 'sh', '-ec',
                'mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"',
                'sh')


# Without the kernel's own BTF, and with another folder for its image.
WITHOUT_BTF = ('unshare', '--mount', '--propagation', 'private', 'sh', '-ec',
               'cp /sys/kernel/btf/vmlinux "$0"; '
               'mount -t tmpfs tmpfs /sys/kernel/btf; '
               'mount --bind "$1" /boot; shift; exec "$@"')
READ_TYPES = """
from octavia_xdp_provider.drops import environment
try:
    print(environment.types().enum('xdp_action')[4])
except environment.Missing as missing:
    print(missing)
"""


@testtools.skipUnless(os.geteuid() == 0, 'needs root')
class TestKernelTypes(testtools.TestCase):

    def types(self, copy):
        """:param copy: where the kernel's BTF is left, in /boot"""
        boot = self.useFixture(fixtures.TempDir()).path
        return subprocess.run(
            [*WITHOUT_BTF, os.path.join(boot, copy), boot, sys.executable,
             '-c', READ_TYPES], capture_output=True, text=True,
            check=True).stdout

    def test_types_are_found_beside_the_kernels_image(self):
        self.assertEqual('XDP_REDIRECT\n',
                         self.types(f'vmlinux-{os.uname().release}'))

    def test_kernel_without_types_is_explained(self):
        self.assertIn('libbpf finds none', self.types('elsewhere'))


class TestDrops(private_node.TwoNamespaces):

    def setUp(self):
        super().setUp()
        folder = os.path.dirname(self.lock)
        self.datapath = self.open(
            lock_file=os.path.join(folder, 'datapath.lock'))
        self.config = os.path.join(folder, 'octavia-xdp.conf')
        with open(self.config, 'w') as file:
            file.write(f'[agent]\nrun_directory = {folder}\n'
                       f'[datapath]\npin_directory = {self.pins}\n'
                       f'library = {private_node.library_path()}\n')
        # The service has no members: each packet is lost.
        self.datapath.set_service(
            private_node.DNS, [],
            datapath.Settings(slots=private_node.SLOTS))
        command = private_node.command
        command('ip', '-n', self.node, 'link', 'set', 'lo', 'up')
        command('ip', '-n', self.node, 'address', 'add', f'{VIP}/32', 'dev',
                'lo')
        command('ip', '-n', self.node, 'address', 'add', '198.51.100.1/24',
                'dev', 'up0')
        with self.inside(self.node):
            self.datapath.attach(socket.if_nametoindex('up0'))
        self.peer_socket = self.socket()

    def tool(self, *arguments, prefix=()):
        with self.inside(self.node):
            process = subprocess.Popen(
                [*prefix, sys.executable, '-m',
                 'octavia_xdp_provider.cmd.drops', '--json', '--interval',
                 '0.2', '--config-file', self.config, *arguments],
                stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, json.loads(process.stdout.readline() or 'null')

    def send(self, port):
        ethernet = bytes.fromhex((
            private_node.OWN_MAC + private_node.NEXT_HOP_MAC
            ).replace(':', '')) + b'\x08\x00'
        for _ in range(PACKETS):
            self.peer_socket.send(ethernet + frames.udp_packet(
                '198.51.100.7', VIP, 1024, port, b'question'))

    def total(self, process, **fields):
        """Return packets in rows with these fields, once all are counted."""
        for _ in range(READINGS):
            line = json.loads(process.stdout.readline())
            rows = [row for row in line['drops']
                    if fields.items() <= row.items()]
            if sum(row['total'] for row in rows) >= PACKETS:
                return sum(row['total'] for row in rows)
        self.fail(f'not shown: {line}')

    def end(self, process):
        process.send_signal(signal.SIGINT)
        last = json.loads(process.stdout.read().splitlines()[-1])
        self.assertEqual(('end', 'signal'), (last['type'], last['why']))
        self.assertEqual(0, process.wait())

    def test_drops_of_the_datapath_need_no_tracing(self):
        self.send(53)  # before: not to be counted
        process, start = self.tool('--datapath')
        self.assertEqual(['datapath'], start['sources'])
        self.send(53)
        self.assertEqual(PACKETS, self.total(
            process, source='datapath', reason='NO_MEMBER'))
        self.end(process)

    def test_all_sources_show_drops_of_the_vips_of_the_node(self):
        try:
            environment.bcc()
        except environment.Missing as missing:
            self.skipTest(str(missing))
        process, start = self.tool(prefix=WITH_TRACEFS)
        self.assertEqual(([VIP], ['kernel', 'xdp', 'datapath']),
                         (start['vips'], start['sources']))
        self.send(53)
        self.assertEqual(PACKETS, self.total(
            process, source='datapath', reason='NO_MEMBER'))
        # No service there: the datapath passes it on, and nobody listens.
        self.send(54)
        self.assertEqual(PACKETS, self.total(
            process, source='kernel', reason='NO_SOCKET', vip=VIP,
            interface='up0'))
        self.end(process)
