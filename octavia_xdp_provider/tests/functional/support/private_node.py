# SPDX-License-Identifier: Apache-2.0
"""A datapath on the running kernel that is gone after the test: needs root."""

import os
import pathlib
import socket
import subprocess
import tempfile
import unittest
import uuid

from lab import namespaces
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests import instrumented
from octavia_xdp_provider.tests.support import waiting

BUILD = pathlib.Path(__file__).parents[4] / 'datapath/build'
VIP = '192.0.2.1'
HTTP = datapath.Key(VIP, 'TCP', 80)
DNS = datapath.Key(VIP, 'UDP', 53)
SIGNALS = datapath.Key(VIP, 'SCTP', 2905)
HTTP_V6 = datapath.Key('2001:db8::1', 'TCP', 80)
NODE = '10.0.0.1'
OWN_MAC = '02:00:00:00:00:01'
NEXT_HOP_MAC = '02:00:00:00:00:02'
SLOTS = 1009
XDP_TX = 3


def command(*words, **options):
    done = subprocess.run(words, text=True, capture_output=True, **options)
    if done.returncode:
        raise AssertionError(f'{" ".join(map(str, words))}: '
                             f'{done.stdout}{done.stderr}')
    return done.stdout


def add_namespaces(test, *names):
    """Namespaces of networks that are gone after the test."""
    for name in names:
        command('ip', 'netns', 'add', name)
        test.addCleanup(command, 'ip', 'netns', 'del', name)


def veth(end, peer, *words):
    """A pair of interfaces.

    :param end: namespace, name and, if it matters, MAC address; so ``peer``.
    :param words: what ip(8) sets of both, as their MTU.
    """
    (namespace, *own), (other, *others) = end, peer

    def named(name, mac=None):
        return (name, *(('address', mac) if mac else ()), *words)
    command('ip', '-n', namespace, 'link', 'add', *named(*own), 'type',
            'veth', 'peer', 'name', *named(*others), 'netns', other)


def library_path():
    return (os.environ.get(datapath.LIBRARY_VARIABLE) or
            str(BUILD / 'liboctavia_xdp.so'))


class PrivateState(waiting.Waiting, unittest.TestCase):
    """A BPF file system that is gone after the test."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('needs root')
        if not os.path.exists(library_path()):
            self.skipTest('the library is not built (make -C datapath)')
        folder = tempfile.TemporaryDirectory(prefix='octavia-xdp-test-')
        self.addCleanup(folder.cleanup)
        self.bpffs = os.path.join(folder.name, 'bpf')
        os.mkdir(self.bpffs)
        command('mount', '-t', 'bpf', 'bpf', self.bpffs)
        self.addCleanup(command, 'umount', '-l', self.bpffs)
        self.pins = os.path.join(self.bpffs, 'node')
        self.lock = os.path.join(folder.name, 'lock')

    def open(self, **options):
        options = {'create': True, 'services_max': 16, 'members_max': 64,
                   'slots_max': SLOTS, 'pin_directory': self.pins,
                   'lock_file': self.lock, 'library': library_path(),
                   **options}
        opened = instrumented.Datapath(**options)
        self.addCleanup(opened.close)
        return opened

    def assert_fails(self, number, function, *arguments, **options):
        with self.assertRaises(datapath.DatapathError) as caught:
            function(*arguments, **options)
        self.assertEqual(number, caught.exception.errno, caught.exception)
        self.assertTrue(caught.exception.text)
        return caught.exception.text


class TwoNamespaces(PrivateState):
    """Two network namespaces: the peer sends and receives raw frames.

    The node's end has the program in native mode. For XDP_TX to arrive the
    peer's end needs a program of its own: with GRO alone the driver queues
    the frames but wakes nobody (seen on Linux 6.18).
    """

    def setUp(self):
        super().setUp()
        unique = uuid.uuid4().hex[:8]
        self.node, self.peer = f'oxp-node-{unique}', f'oxp-peer-{unique}'
        add_namespaces(self, self.node, self.peer)
        veth((self.node, 'up0', OWN_MAC), (self.peer, 'gw0', NEXT_HOP_MAC))
        for name in (self.node, self.peer):
            command('ip', 'netns', 'exec', name, 'sysctl', '-qw',
                    'net.ipv6.conf.all.disable_ipv6=1')
        command('ip', '-n', self.node, 'link', 'set', 'up0', 'up')
        command('ip', '-n', self.peer, 'link', 'set', 'gw0', 'up')

    def member_tool(self, name, *words):
        return command('ip', 'netns', 'exec', name,
                       str(BUILD / 'octavia-xdp-member'), *words)

    def prepare_uplink(self):
        """The node's uplink, whose other end has a program.

        Any program does: it must only have one (see the class).
        """
        self.member_tool(self.peer, 'setup', '--any-source', 'gw0')
        with self.inside(self.node):
            return datapath.Uplink(socket.if_nametoindex('up0'), 1500,
                                   OWN_MAC, NEXT_HOP_MAC)

    @staticmethod
    def inside(name):
        """The calling thread in a namespace."""
        return namespaces.entered(name)

    def socket(self):
        with self.inside(self.peer):
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                   socket.htons(0x0800))
            opened.bind(('gw0', 0x0800))
        opened.settimeout(2)
        self.addCleanup(opened.close)
        return opened
