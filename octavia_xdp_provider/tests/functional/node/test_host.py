# SPDX-License-Identifier: Apache-2.0
"""A hypervisor's programs on real devices, with servers that know nothing."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

from lab import namespaces
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support.hypervisor import FAMILIES
from octavia_xdp_provider.tests.functional.support.hypervisor import LIBRARY


class TestHost(hypervisor.HypervisorWithVm):

    def test_stock_servers_answer_from_the_vip(self):
        for version in FAMILIES:
            server = self.server(self.vm, version)
            datagrams = self.server(self.vm, version, socket.SOCK_DGRAM)
            for self.sid in (False, True):
                self.exchange(*self.connect(server, version))
                family, vip, _ = FAMILIES[version]
                client = self.socket(self.client, family, socket.SOCK_DGRAM)
                # takes no other's answer
                client.connect((vip, hypervisor.LISTENER))
                client.send(b'question')
                data, peer = datagrams.recvfrom(100)
                datagrams.sendto(data[::-1], peer)
                self.assertEqual(b'question'[::-1], client.recv(100))
            server.close()
            datagrams.close()

    def test_bulk_both_ways_within_the_mss(self):
        client, server = self.connect(self.server(self.vm, 4), 4)
        data = os.urandom(1 << 20)
        for sender, receiver in ((server, client), (client, server)):
            thread = threading.Thread(target=sender.sendall, args=(data,))
            thread.start()
            got = b''
            while len(got) < len(data):
                part = receiver.recv(1 << 20)
                self.assertTrue(part)
                got += part
            thread.join()
            self.assertEqual(data, got)
        self.assertLessEqual(self.largest, fabric.MTU)
        self.assertFalse(self.did_not_fit.is_set())

    def test_same_fixed_ip_of_two_tenants(self):
        other = hypervisor.VirtualMachine(1, self)
        vips = ('203.0.113.11', '2001:db8:f::11')
        for vip, source in zip(vips, (fabric.CLIENT, fabric.CLIENT6),
                               strict=True):
            fabric.command('ip', '-n', self.client, 'route', 'add', vip,
                           'dev', 'lan0', 'src', source)
            fabric.command('ip', '-n', self.client, 'neigh', 'add', vip,
                           'dev', 'lan0', 'lladdr', fabric.VIP_MAC)
        self.plug(other, vips)
        for version, vip in ((4, vips[0]), (6, vips[1])):
            own = self.server(self.vm, version)
            others = self.server(other, version)
            self.exchange(*self.connect(own, version))
            self.exchange(*self.connect(others, version, vip))

    def test_flows_outlive_the_process_and_a_new_load(self):
        server = self.server(self.vm, 4)
        client, accepted = self.connect(server, 4)
        self.exchange(client, accepted)
        self.host.close()
        self.exchange(client, accepted)
        self.host = self.open()
        with namespaces.entered(self.member):
            for hook, ifindex in ((types.Hook.NIC, self.nic),
                                  (types.Hook.TAP_IN, self.vm.ifindex),
                                  (types.Hook.TAP_OUT, self.vm.ifindex)):
                self.assertFalse(self.host.attach(hook, ifindex))
                # without the program for a moment, and with a new load
                self.assertTrue(self.host.detach(hook, ifindex))
                self.assertTrue(self.host.attach(hook, ifindex))
        self.exchange(client, accepted)
        flow, = self.host.flows(types.Table.CONFIRMED)
        self.assertEqual(fabric.CLIENT, flow.client)
        self.exchange(*self.connect(server, 4))

    def test_drops_are_shown_as_those_of_an_lb_node(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        config = pathlib.Path(directory.name, 'host.conf')
        config.write_text('[datapath]\npin_directory = /nowhere\n'
                          f'[host_agent]\npin_directory = {self.folder}\n'
                          f'library = {LIBRARY}\n')
        process = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-m',
             'octavia_xdp_provider.cmd.drops', '--config-file', str(config),
             '--json', '--datapath', '--interval', '0.2'],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        start = json.loads(process.stdout.readline() or 'null')
        self.assertEqual(['host'], start['sources'])
        self.assertEqual({fabric.VIP, fabric.VIP6}, set(start['vips']))
        self.host.set_port(types.Port(self.vm.port, self.vm.ifindex), ())
        client = self.socket(self.client, socket.AF_INET, socket.SOCK_DGRAM)
        client.connect((fabric.VIP, hypervisor.LISTENER))
        for _ in range(3):
            client.send(b'question')
        for line in process.stdout:
            drops = {(row['reason'], row['port']): row['total']
                     for row in json.loads(line)['drops']}
            if drops.get(('NOT_ALLOWED', self.vm.port)) == 3:
                break
        self.assertEqual({('NOT_ALLOWED', self.vm.port): 3}, drops)
