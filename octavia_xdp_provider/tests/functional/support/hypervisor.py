# SPDX-License-Identifier: Apache-2.0
"""A hypervisor with VMs that know nothing of load balancers.

The member's namespace of the fabric is the hypervisor; each VM is a namespace
behind a veth, as behind a tap. Needs root and Linux 6.6.
"""

import os
import pathlib
import socket
import struct
import tempfile
import uuid

from lab import namespaces
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import private_node

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
        self.port = str(uuid.UUID(int=(number + 1) << 96))
        self.tap = f'tap{self.port[:11]}'
        self.first_key = 100 * (number + 1)
        private_node.add_namespaces(test, self.namespace)
        test.sysctl(self.namespace, ipv6__conf__default__accept_dad=0)
        self.test = test
        self.plug_in()

    def plug_in(self):
        """A tap, new; the VM keeps nothing of what it had."""
        test = self.test
        private_node.veth((test.member, self.tap),
                          (self.namespace, 'eth0', VM_MAC), 'mtu', '1442')
        fabric.set_up(test.member, self.tap)
        fabric.set_up(self.namespace, 'lo', 'eth0')
        fabric.ip(self.namespace,
                  *fabric.added('eth0', f'{FIXED}/24', f'{FIXED6}/64'),
                  *(line for gateway in (SUBNET_GATEWAY, SUBNET_GATEWAY6)
                    for line in (
                        f'route add default via {gateway}',
                        f'neigh add {gateway} dev eth0 lladdr {ROUTER_MAC}')))
        with namespaces.entered(test.member):
            self.ifindex = socket.if_nametoindex(self.tap)

    def plug_out(self):
        """The tap goes, as when the VM ends or moves."""
        fabric.command('ip', '-n', self.test.member, 'link', 'del', self.tap)

    def entries(self, vips):
        number = 0
        for vip, fixed in zip(vips, (FIXED, FIXED6), strict=True):
            for protocol in ('tcp', 'udp'):
                yield types.Entry(
                    self.first_key + number, self.port, vip, LISTENER, fixed,
                    LOCAL, protocol, VM_MAC, ROUTER_MAC,
                    1400 if '.' in vip else 1380)
                number += 1


class Hypervisor(fabric.Fabric):
    """``keys``: by (VIP, protocol), of what clients send."""

    def setUp(self):
        super().setUp()
        if not LIBRARY.exists():
            self.skipTest('the library is not built (make -C datapath)')
        if tuple(map(int, os.uname().release.split('.')[:2])) < (6, 6):
            self.skipTest('tcx is not in this kernel')
        self.sid = False
        self.keys = {}
        self.folder = self.pin_folder()
        with namespaces.entered(self.member):
            self.nic = socket.if_nametoindex('eth0')

    def pin_folder(self):
        """Where a hypervisor's programs may be, on a file system of its own.
        """
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        fabric.command('mount', '-t', 'bpf', 'bpf', directory.name)
        self.addCleanup(fabric.command, 'umount', '-l', directory.name)
        return str(pathlib.Path(directory.name, 'host'))

    def create(self):
        """``host``: a datapath that knows its LB nodes, and no port."""
        self.addCleanup(datapath.Datapath.remove, self.folder, str(LIBRARY))
        datapath.Datapath.create(self.folder, types.Sizes(
            64, 8, 4096, 4096), str(LIBRARY))
        self.host = self.open()
        self.addCleanup(lambda: self.host.close())
        self.host.set_settings(types.Settings(
            self.nic, fabric.OWN, fabric.OWN6, SID))
        self.host.set_networks(['10.0.0.0/24', '2001:db8::/48'])

    def open(self):
        return datapath.Datapath(self.folder, str(LIBRARY))

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
        accepted.settimeout(120)
        self.assertEqual((fabric.CLIENT, fabric.CLIENT6)[version == 6],
                         peer[0])
        return client, accepted

    def exchange(self, client, server):
        client.sendall(b'question')
        self.assertEqual(b'question', server.recv(100))
        server.sendall(b'answer')
        self.assertEqual(b'answer', client.recv(100))


class HypervisorWithVm(Hypervisor):
    """``host``: the datapath, which has a VM with a listener of each family
    and protocol."""

    def setUp(self):
        super().setUp()
        self.vm = VirtualMachine(0, self)
        self.create()
        with namespaces.entered(self.member):
            self.host.attach(types.Hook.NIC, self.nic)
        self.plug(self.vm, (fabric.VIP, fabric.VIP6))

    def plug(self, vm, vips, rules=ALL):
        self.host.set_port(types.Port(vm.port, vm.ifindex), rules)
        for entry in vm.entries(vips):
            self.host.set_entry(entry)
            self.keys[entry.vip, entry.protocol] = entry.key
        with namespaces.entered(self.member):
            self.host.attach(types.Hook.TAP_IN, vm.ifindex)
            self.host.attach(types.Hook.TAP_OUT, vm.ifindex)
