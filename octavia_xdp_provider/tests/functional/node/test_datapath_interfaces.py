# SPDX-License-Identifier: Apache-2.0
"""Programs of interfaces, and packets through them: needs root."""

import errno
import json
import socket

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support.private_node import command
from octavia_xdp_provider.tests.functional.support.private_node import NODE


class TestInterfaces(private_node.TwoNamespaces):

    def setUp(self):
        super().setUp()
        self.uplink = self.prepare_uplink()
        self.datapath = self.open()
        self.datapath.set_uplinks([self.uplink])
        self.datapath.set_node(datapath.NodeSettings(NODE))

    def attach(self, opened=None):
        with self.inside(self.node):
            (opened or self.datapath).attach(socket.if_nametoindex('up0'))

    def detach(self):
        with self.inside(self.node):
            self.datapath.detach(socket.if_nametoindex('up0'))

    def link(self):
        return command('ip', '-n', self.node, '-d', 'link', 'show', 'up0')

    def test_attach_survives_and_is_replaced(self):
        self.attach()
        first = self.link()
        self.assertIn('prog/xdp id', first)
        self.datapath.close()
        self.assertEqual(first, self.link())
        self.datapath = self.open()
        # the same program stays, another one is replaced
        self.attach()
        self.assertEqual(first, self.link())
        self.datapath.set_node(datapath.NodeSettings(
            NODE, flags=datapath.NodeFlag.FIB))
        self.assertIn('prog/xdp id', self.link())
        self.assertNotEqual(first, self.link())
        self.detach()
        self.assertNotIn('prog/xdp', self.link())
        self.assert_fails(errno.ENOENT, self.detach)

    def test_program_of_all_links_is_replaced(self):
        private_node.veth((self.node, 'up1'), (self.peer, 'gw1'))
        with self.inside(self.node):
            links = [socket.if_nametoindex(name) for name in ('up0', 'up1')]
            for link in links:
                self.datapath.attach(link)
        before = self.programs('up0', 'up1')
        self.assertNotEqual(before[0], before[1])

        # Settings that are constants of the program: a new program takes over.
        self.datapath.set_node(datapath.NodeSettings(
            NODE, flags=datapath.NodeFlag.FIB))
        fib = self.programs('up0', 'up1')
        self.assertEqual(fib[0], fib[1])
        self.assertNotIn(fib[0], before)
        # Settings in maps and unchanged ones need no new program.
        for settings in (datapath.NodeSettings(NODE, flags=(
                datapath.NodeFlag.FIB | datapath.NodeFlag.ECHO)), ) * 2:
            self.datapath.set_node(settings)
            self.assertEqual(fib, self.programs('up0', 'up1'))

        # One that has gone keeps the others from nothing.
        command('ip', '-n', self.node, 'link', 'del', 'up1')
        self.datapath.set_node(datapath.NodeSettings(NODE))
        self.assertNotIn(self.programs('up0'), ([fib[0]], [before[0]]))
        with self.inside(self.node):
            self.datapath.detach(links[0])
            self.assert_fails(errno.ENOENT, self.datapath.detach, links[1])

    def programs(self, *names):
        """The id of the program that each interface has."""
        return [json.loads(command('ip', '-n', self.node, '-j', 'link',
                                   'show', name))[0]['xdp']['prog']['id']
                for name in names]

    def test_destroyed_datapath_leaves_no_program(self):
        self.attach()
        self.datapath.destroy()
        self.assertNotIn('prog/xdp', self.link())

    def test_interface_that_comes_back_is_attached_again(self):
        self.attach()
        with self.inside(self.node):
            index = socket.if_nametoindex('up0')
        command('ip', '-n', self.node, 'link', 'del', 'up0')
        command('ip', '-n', self.node, 'link', 'add', 'up0', 'index',
                str(index), 'type', 'veth', 'peer', 'name', 'gw0',
                'netns', self.peer)
        self.attach()
        self.assertIn('prog/xdp id', self.link())

    def test_interface_that_is_not_there_is_an_error(self):
        self.assert_fails(errno.ENODEV, self.datapath.attach, 0x7ffffff)
