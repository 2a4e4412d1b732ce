# SPDX-License-Identifier: Apache-2.0
"""A node in a network namespace for the tests of octavia-xdp-ctl."""

import ctypes
import json
import mmap
import os
import socket
import struct
import sys
import unittest

from octavia_xdp_provider.cmd import ctl
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import forked
from octavia_xdp_provider.tests.functional.support import private_node as base
from octavia_xdp_provider.tests.support.clients import DNS
from octavia_xdp_provider.tests.support.clients import HTTP
from octavia_xdp_provider.tests.support.clients import HTTP_V6

# Far above what it takes.
SOON = 60


class Node(base.TwoNamespaces):

    def setUp(self):
        super().setUp()
        # any program does: it must only have one (see the base class)
        self.member_tool(self.peer, 'setup', '--any-source', 'gw0')
        self.datapath = self.open(flows_max=1024)
        with self.inside(self.node):
            self.ifindex = socket.if_nametoindex('up0')
            self.datapath.set_uplinks([datapath.Uplink(
                self.ifindex, 1500, base.OWN_MAC, base.NEXT_HOP_MAC,
                base.NEXT_HOP_MAC)])
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
        """The command as a person starts it."""
        return ['ip', 'netns', 'exec', self.node, sys.executable, '-W',
                'ignore', '-m', 'octavia_xdp_provider.cmd.ctl',
                *self.arguments(words)]

    def arguments(self, words):
        return ['--pin-directory', self.pins, '--lock-file', self.lock,
                '--library', base.library_path(), *words]

    def ctl(self, *words, status=0):
        result = forked.run(ctl.main, self.arguments(words), SOON,
                            self.inside(self.node).__enter__)
        self.assertEqual(status, result.returncode,
                         result.stdout + result.stderr)
        return result

    def json(self, *words):
        return json.loads(self.ctl(*words, '--json').stdout)

    def spoil(self, key):
        """Write a slot that no library would."""
        entry = self.datapath.service(key).index * 80
        places = struct.unpack_from('=II', self.memory('services'), entry + 36)
        memory = self.memory('segment-0')
        for place in (64 * line for line in places if line):
            slots, = struct.unpack_from('=H', memory, place + 20)
            memory[place + 64 * slots + 5] = 0xff

    def memory(self, name):
        """A pinned map, mapped."""
        path = os.path.join(self.pins, 'maps', name)
        shown = json.loads(base.command('bpftool', '-j', 'map', 'show',
                                        'pinned', path))
        library = ctypes.CDLL('libbpf.so.1', use_errno=True)
        descriptor = library.bpf_obj_get(path.encode())
        self.assertGreaterEqual(descriptor, 0)
        self.addCleanup(os.close, descriptor)
        return mmap.mmap(descriptor,
                         shown['bytes_value'] * shown['max_entries'])


class SharedNode(Node):
    """One node for all tests of a class, which leave it as it is."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls._owner = Node('setUp')
        cls.addClassCleanup(cls._owner.doCleanups)
        cls._owner.setUp()

    def setUp(self):
        unittest.TestCase.setUp(self)
        for name in ('node', 'peer', 'pins', 'lock', 'datapath', 'ifindex'):
            setattr(self, name, getattr(self._owner, name))
