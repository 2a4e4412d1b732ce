# SPDX-License-Identifier: Apache-2.0
"""A hypervisor's programs on real devices, with servers that know nothing.

The member's namespace of the fabric is the hypervisor; each VM is a namespace
behind a veth, as behind a tap. Needs root and Linux 6.6.
"""

import os
import pathlib
import socket
import struct
import tempfile
import threading
import uuid

from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.functional.support import fabric

LIBRARY = fabric.DATAPATH / 'build/liboctavia_xdp_host.so'
FIXED, FIXED6, SUBNET_GATEWAY = '192.168.7.5', 'fd00:7::5', '192.168.7.1'
SUBNET_GATEWAY6 = 'fd00:7::1'
VM_MAC, ROUTER_MAC = 'fa:16:3e:00:00:05', 'fa:16:3e:00:00:01'
LISTENER, LOCAL = 80, 8080
SID = '2001:db8:1:2:3:4::'
ALL = (types.Rule(4, 'tcp', (LOCAL, LOCAL)), types.Rule(4, 'udp'),
       types.Rule(6))
FAMILIES = {4: (socket.AF_INET, fabric.VIP, FIXED),
            6: (socket.AF_INET6, fabric.VIP6, FIXED6)}


class VirtualMachine:
    """A namespace with one interface, and its port and keys."""

    def __init__(self, number, test):
        self.namespace = f'oxh-v{number}-{uuid.uuid4().hex[:8]}'
        self.tap = f'tap{number}'
        self.port = str(uuid.UUID(int=number + 1))
        self.first_key = 100 * (number + 1)
        fabric.command('ip', 'netns', 'add', self.namespace)
        test.addCleanup(fabric.command, 'ip', 'netns', 'del', self.namespace)
        fabric.command(
            'ip', '-n', test.member, 'link', 'add', self.tap, 'mtu', '1442',
            'type', 'veth', 'peer', 'name', 'eth0', 'address', VM_MAC, 'mtu',
            '1442', 'netns', self.namespace)
        test.sysctl(self.namespace, ipv6__conf__all__accept_dad=0,
                    ipv6__conf__default__accept_dad=0)
        for namespace, interface in ((test.member, self.tap),
                                     (self.namespace, 'lo'),
                                     (self.namespace, 'eth0')):
            fabric.command('ip', '-n', namespace, 'link', 'set', interface,
                           'up')
        for address, gateway, words in (
                (f'{FIXED}/24', SUBNET_GATEWAY, ()),
                (f'{FIXED6}/64', SUBNET_GATEWAY6, ('nodad',))):
            fabric.command('ip', '-n', self.namespace, 'address', 'add',
                           address, 'dev', 'eth0', *words)
            fabric.command('ip', '-n', self.namespace, 'route', 'add',
                           'default', 'via', gateway)
            fabric.command('ip', '-n', self.namespace, 'neigh', 'add',
                           gateway, 'dev', 'eth0', 'lladdr', ROUTER_MAC)
        with fabric.inside(test.member):
            self.ifindex = socket.if_nametoindex(self.tap)

    def entries(self, vips):
        number = 0
        for vip, fixed in zip(vips, (FIXED, FIXED6), strict=True):
            for protocol in ('tcp', 'udp'):
                yield types.Entry(
                    self.first_key + number, self.port, vip, LISTENER, fixed,
                    LOCAL, protocol, VM_MAC, ROUTER_MAC,
                    1400 if '.' in vip else 1380)
                number += 1


class TestHost(fabric.Fabric):

    def setUp(self):
        super().setUp()
        if not LIBRARY.exists():
            self.skipTest('the library is not built (make -C datapath)')
        if tuple(map(int, os.uname().release.split('.')[:2])) < (6, 6):
            self.skipTest('tcx is not in this kernel')
        self.sid = False
        self.keys = {}
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        fabric.command('mount', '-t', 'bpf', 'bpf', directory.name)
        self.addCleanup(fabric.command, 'umount', '-l', directory.name)
        self.folder = str(pathlib.Path(directory.name, 'host'))
        with fabric.inside(self.member):
            self.nic = socket.if_nametoindex('eth0')
        self.vm = VirtualMachine(0, self)
        self.addCleanup(datapath.Datapath.remove, self.folder, str(LIBRARY))
        datapath.Datapath.create(self.folder, types.Sizes(
            64, 8, 4096, 4096, 4096), str(LIBRARY))
        self.host = self.open()
        self.addCleanup(lambda: self.host.close())
        self.host.set_settings(types.Settings(
            self.nic, fabric.OWN, fabric.OWN6, SID))
        self.host.set_networks(['10.0.0.0/24', '2001:db8::/48'])
        with fabric.inside(self.member):
            self.host.attach(types.Hook.NIC, self.nic)
        self.plug(self.vm, (fabric.VIP, fabric.VIP6))

    def open(self):
        return datapath.Datapath(self.folder, str(LIBRARY))

    def plug(self, vm, vips, rules=ALL):
        self.host.set_port(types.Port(vm.port, vm.ifindex), rules)
        for entry in vm.entries(vips):
            self.host.set_entry(entry)
            self.keys[entry.vip, entry.protocol] = entry.key
        with fabric.inside(self.member):
            self.host.attach(types.Hook.TAP_IN, vm.ifindex)
            self.host.attach(types.Hook.TAP_OUT, vm.ifindex)

    def through_node(self, frame):
        inner = fabric.parsed(frame[14:])
        v6 = inner.version == 6
        protocol = {6: 'tcp', 17: 'udp'}.get(inner.nh if v6 else inner.proto,
                                             'tcp')
        key = self.keys[inner.dst, protocol]
        if self.sid:
            return fabric.inet6.IPv6(
                src=fabric.NODE6, dst=SID + f'{key:x}',
                nh=41 if v6 else 4) / fabric.scapy_packet.Raw(frame[14:])
        shim = struct.pack('!HHI', 0, 0x86dd if v6 else 0x0800, key << 8)
        return fabric.inet.IP(src=fabric.NODE, dst=fabric.OWN) / (
            fabric.inet.UDP(sport=0xc001, dport=6081, chksum=0) /
            fabric.scapy_packet.Raw(shim + frame[14:]))

    def server(self, vm, version, kind=socket.SOCK_STREAM):
        family, _, fixed = FAMILIES[version]
        server = self.socket(vm.namespace, family, kind)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((fixed, LOCAL))
        if kind == socket.SOCK_STREAM:
            server.listen()
        return server

    def connect(self, server, version, vip=None):
        """Client's and server's end; the server sees the client's address."""
        family, own_vip, _ = FAMILIES[version]
        client = self.socket(self.client, family, socket.SOCK_STREAM)
        client.connect((vip or own_vip, LISTENER))
        accepted, peer = server.accept()
        self.addCleanup(accepted.close)
        accepted.settimeout(20)
        self.assertEqual((fabric.CLIENT, fabric.CLIENT6)[version == 6],
                         peer[0])
        return client, accepted

    def exchange(self, client, server):
        client.sendall(b'question')
        self.assertEqual(b'question', server.recv(100))
        server.sendall(b'answer')
        self.assertEqual(b'answer', client.recv(100))

    def test_stock_servers_answer_from_the_vip(self):
        for version in FAMILIES:
            server = self.server(self.vm, version)
            datagrams = self.server(self.vm, version, socket.SOCK_DGRAM)
            for self.sid in (False, True):
                self.exchange(*self.connect(server, version))
                family, vip, _ = FAMILIES[version]
                client = self.socket(self.client, family, socket.SOCK_DGRAM)
                client.connect((vip, LISTENER))  # takes no other's answer
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
        other = VirtualMachine(1, self)
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
        with fabric.inside(self.member):
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

    def test_rule_that_goes_ends_flows_and_comes_back(self):
        server = self.server(self.vm, 4)
        client, accepted = self.connect(server, 4)
        self.host.set_port(types.Port(self.vm.port, self.vm.ifindex), ())
        client.sendall(b'held back')
        accepted.settimeout(0.3)
        self.assertRaises(TimeoutError, accepted.recv, 100)
        accepted.settimeout(20)
        self.host.set_port(types.Port(self.vm.port, self.vm.ifindex), ALL)
        self.assertEqual(b'held back', accepted.recv(100))

    def test_hypervisor_reaches_the_member_directly_at_the_same_time(self):
        fabric.command('ip', '-n', self.member, 'address', 'add',
                       f'{SUBNET_GATEWAY}/24', 'dev', self.vm.tap)
        fabric.command('ip', '-n', self.member, 'link', 'set', self.vm.tap,
                       'address', ROUTER_MAC)
        server = self.server(self.vm, 4)
        through, accepted = self.connect(server, 4)
        direct = self.socket(self.member, socket.AF_INET, socket.SOCK_STREAM)
        direct.connect((FIXED, LOCAL))
        directly_accepted, peer = server.accept()
        self.addCleanup(directly_accepted.close)
        self.assertEqual(SUBNET_GATEWAY, peer[0])
        self.exchange(direct, directly_accepted)
        self.exchange(through, accepted)
        self.assertEqual(1, len(self.host.flows(types.Table.DIRECT)))

    def test_trace_shows_what_the_programs_took(self):
        self.host.trace(self.vm.port)
        self.exchange(*self.connect(self.server(self.vm, 4), 4))
        self.host.trace(self.vm.port, on=False)
        traced = self.host.traced(1000)
        self.assertEqual({'IN', 'OUT'},
                         {outcome.name for _, outcome, _, _ in traced})
        self.assertEqual({self.keys[fabric.VIP, 'tcp']},
                         {key for _, _, key, _ in traced})

    def test_nothing_is_left_when_a_port_goes(self):
        self.exchange(*self.connect(self.server(self.vm, 4), 4))
        self.assertTrue(self.host.delete_port(self.vm.port))
        self.assertEqual(([], [], []), (
            self.host.ports(), self.host.entries(),
            self.host.flows(types.Table.CONFIRMED)))
        self.assertEqual([], self.host.flows(types.Table.HALF_OPEN))
        self.assertFalse(self.host.delete_port(self.vm.port))
