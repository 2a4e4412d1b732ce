# SPDX-License-Identifier: Apache-2.0
"""Segments that are one packet stay one.

Each frame comes with a header that says how large its segments are. What VMs
send comes from a tap as QEMU opens it. What they get is counted behind a veth:
in front of a tap the kernel separates again what came in a tunnel, for the
packet keeps marks of the tunnel's, which no helper takes off, and of which
taps know nothing.
"""

import fcntl
import os
import pathlib
import select
import socket
import struct

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from lab import namespaces
from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.support import form

SEGMENT, SEGMENTS, PORT = 1300, 16, 40000
# linux/if_tun.h
TUNSETIFF, TUNSETOFFLOAD = 0x400454ca, 0x400454d0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 2, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 = 1, 2, 4
# struct virtio_net_hdr: flags, gso_type, hdr_len, gso_size, csum_start,
# csum_offset
VNET = struct.Struct('=BBHHHH')
NEEDS_CSUM = 1
GSO_TCP = {4: 1, 6: 4}
# linux/if_packet.h
SOL_PACKET, PACKET_VNET_HDR = 263, 15
FAMILIES = {4: (inet.IP, fabric.CLIENT, fabric.VIP, hypervisor.FIXED),
            6: (inet6.IPv6, fabric.CLIENT6, fabric.VIP6, hypervisor.FIXED6)}
HEADERS = {4: 20, 6: 40}


def total(data):
    """One's complement sum of 16-bit words."""
    data = bytes(data) + bytes(len(data) % 2)
    value = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while value >> 16:
        value = (value & 0xffff) + (value >> 16)
    return value


class Tap:
    """A port's tap and who has opened it."""

    port = '00000001-1111-1111-1111-111111111111'

    def __init__(self, test):
        name = f'tap{self.port[:11]}'
        with namespaces.entered(test.member):
            self.file = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self.file, TUNSETIFF, struct.pack(
                '16sH22x', name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
            fcntl.ioctl(self.file, TUNSETOFFLOAD,
                        TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)
            self.ifindex = socket.if_nametoindex(name)
        test.addCleanup(os.close, self.file)
        fabric.command('ip', '-n', test.member, 'link', 'set', name, 'mtu',
                       '1442', 'up')

    def read(self):
        return os.read(self.file, 1 << 17)

    def send(self, header, frame):
        os.write(self.file, header + frame)


class Behind:
    """Captures the packets that leave a veth."""

    def __init__(self, test):
        vm = hypervisor.VirtualMachine(0, test)
        self.port, self.ifindex = vm.port, vm.ifindex
        self.file = test.packets(vm.namespace, 'eth0')
        self.file.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)

    def read(self):
        return self.file.recv(1 << 17)


class TestOffloads(hypervisor.Hypervisor):

    def setUp(self):
        super().setUp()
        if not pathlib.Path('/dev/net/tun').exists():
            self.skipTest('this machine has no taps')
        self.sid = True  # Geneve is put together only beside a device of it
        self.create()
        # veth puts segments together unless its peer does TSO
        self.offloads(self.member, 'eth0', 'gro', 'on')
        self.offloads(self.client, 'gw0', 'tso', 'off')
        self.run_in(self.member, 'sh', '-c', 'echo 50000000 > '
                    '/sys/class/net/eth0/gro_flush_timeout')

    def plug(self, vm):
        self.host.set_port(types.Port(vm.port, vm.ifindex),
                           hypervisor.ALL)
        for version, (_, _, vip, fixed) in FAMILIES.items():
            self.keys[vip, 'tcp'] = version
            self.host.set_entry(types.Entry(
                version, vm.port, vip, hypervisor.LISTENER, fixed,
                hypervisor.LOCAL, 'tcp', hypervisor.VM_MAC,
                hypervisor.ROUTER_MAC, 1380))
        with namespaces.entered(self.member):
            self.host.attach(types.Hook.NIC, self.nic)
            for hook in (types.Hook.TAP_IN, types.Hook.TAP_OUT):
                self.host.attach(hook, vm.ifindex)

    def counters(self, version):
        return {state.entry.key: state
                for state in self.host.entries()}[version]

    def segments(self, version, start):
        """Return an LB node's packet for one write of the client."""
        layer, client, vip, _ = FAMILIES[version]
        for number in range(SEGMENTS):
            # as the kernel sends: ids that stay the same without DF would
            # have to be kept, which not every device can
            more = {'id': number + 1, 'flags': 'DF'} if version == 4 else {}
            inner = layer(src=client, dst=vip, **more) / inet.TCP(
                sport=PORT, dport=hypervisor.LISTENER, flags='A', ack=1,
                seq=start + number * SEGMENT) / bytes([number + 1] * SEGMENT)
            kind = 0x0800 if version == 4 else 0x86dd
            outer = self.through_node(bytes(l2.Ether(type=kind) / inner))
            yield bytes(l2.Ether(
                src=fabric.GATEWAY_MAC, dst=fabric.MEMBER_MAC,
                type=0x86dd if self.sid else 0x0800) / outer)

    def arrived(self, version, vm):
        """(kind, size, payload) of all frames until the last segment."""
        out, length = [], 0
        client, _, fixed = FAMILIES[version][1:]
        while length < SEGMENT * SEGMENTS:
            self.assertTrue(select.select([vm.file], [], [], 120)[0],
                            f'{length} bytes came')
            data = vm.read()
            _, kind, _, size, _, _ = VNET.unpack(data[:VNET.size])
            packet = fabric.parsed(data[VNET.size + 14:])
            if (packet.src, packet.dst) != (client, fixed):
                continue
            payload = bytes(packet[inet.TCP].payload)
            length += len(payload)
            out.append((kind, size, payload))
        return out

    def send_in(self, version, vm):
        """(packets at the NIC's program, what arrived), of what the kernel
        has put together at all, which is up to the machine."""
        for attempt in range(1000):
            frames = list(self.segments(version,
                                        1 + attempt * SEGMENT * SEGMENTS))
            before = self.counters(version).packets_in
            for frame in frames:
                self._out.send(frame)
            got = self.arrived(version, vm)
            self.assertEqual(
                b''.join(bytes([number + 1] * SEGMENT)
                         for number in range(SEGMENTS)),
                b''.join(payload for _, _, payload in got))
            packets = self.counters(version).packets_in - before
            if packets < SEGMENTS:
                return packets, got
        self.fail('the kernel never put segments together')

    def test_segments_put_together_at_the_nic_arrive_together(self):
        vm = Behind(self)
        self.plug(vm)
        for version in FAMILIES:
            packets, got = self.send_in(version, vm)
            self.assertEqual(packets, len(got))
            together = {(kind, size) for kind, size, payload in got
                        if len(payload) > SEGMENT}
            self.assertEqual({(GSO_TCP[version], SEGMENT)}, together)

    @form.in_long_form
    def test_segments_put_together_at_the_nic_fit_a_tap(self):
        vm = Tap(self)
        self.plug(vm)
        for version in FAMILIES:
            _, got = self.send_in(version, vm)
            for kind, size, payload in got:
                self.assertIn((kind, size, len(payload) > SEGMENT), (
                    (0, 0, False), (GSO_TCP[version], SEGMENT, True)))

    @form.in_long_form
    def test_large_answers_leave_as_one(self):
        vm = Tap(self)
        self.plug(vm)
        for version, (_, _, vip, _) in FAMILIES.items():
            with self.subTest(version=version):
                for frame in list(self.segments(version, 1))[:1]:
                    self._out.send(frame)
                answers = self.packets(self.client, 'gw0')
                answers.settimeout(120)
                before = self.counters(version).packets_out
                self.answer(vm, version)
                lengths = []
                while sum(lengths) < SEGMENT * SEGMENTS:
                    data = answers.recv(1 << 17)
                    packet = fabric.parsed(data[14:])
                    if packet.src == vip:
                        lengths.append(len(packet[inet.TCP].payload))
                self.assertEqual([SEGMENT * SEGMENTS], lengths)
                self.assertEqual(
                    1, self.counters(version).packets_out - before)

    def answer(self, vm, version):
        """All segments as one, and their checksums left to the device."""
        layer, client, _, fixed = FAMILIES[version]
        more = {'flags': 'DF'} if version == 4 else {}
        frame = bytes(l2.Ether(
            src=hypervisor.VM_MAC, dst=hypervisor.ROUTER_MAC) /
            layer(src=fixed, dst=client, **more) / inet.TCP(
                sport=hypervisor.LOCAL, dport=PORT, flags='A', seq=1, ack=1,
                chksum=self.pseudo(version)) / bytes(SEGMENT * SEGMENTS))
        header = 14 + HEADERS[version]
        vm.send(VNET.pack(NEEDS_CSUM, GSO_TCP[version], header + 20, SEGMENT,
                          header, 16), frame)
        return frame

    def test_large_answers_that_do_not_fit_are_told_of(self):
        """By their segments. What the VM gets has a checksum that is right
        when its device has completed that of the quote."""
        vm = Tap(self)
        self.plug(vm)
        for version in FAMILIES:
            self._out.send(next(self.segments(version, 1)))
            self.wait('packet', lambda family=version: (
                self.counters(family).packets_in))
        fabric.command('ip', '-n', self.member, 'link', 'set', 'eth0', 'mtu',
                       '1280')
        for version in FAMILIES:
            with self.subTest(version=version):
                sent, got = self.answer(vm, version), self.told(vm, version)
                packet = fabric.parsed(got[14:])
                self.assertEqual(bytes(fabric.recomputed(packet)), got[14:])
                self.assertEqual(548 if version == 4 else 1280, len(packet))
                header = HEADERS[version]
                quote = bytearray(got[14 + header + 8:])
                # completed, of what is left
                quote[header + 16:header + 18] = sent[header + 30:header + 32]
                self.assertEqual(sent[14:14 + len(quote)], bytes(quote))
        self.assertEqual(2, self.host.outcomes()[
            enumerations.HostOutcome.SENT_TOO_BIG])

    def told(self, vm, version):
        """ICMP to the VM, completed as the header in front of it says."""
        protocol = 1 if version == 4 else 58
        while True:
            self.assertTrue(select.select([vm.file], [], [], 120)[0])
            data = vm.read()
            frame = bytearray(data[VNET.size:])
            packet = fabric.parsed(bytes(frame[14:]))
            if packet.version == version and packet.dst == (
                    FAMILIES[version][3]) and protocol == (
                        packet.proto if version == 4 else packet.nh):
                break
        flags, kind, _, _, start, offset = VNET.unpack(data[:VNET.size])
        self.assertEqual((NEEDS_CSUM, 0), (flags, kind))
        struct.pack_into('!H', frame, start + offset,
                         ~total(frame[start:]) & 0xffff)
        return bytes(frame)

    def pseudo(self, version):
        """The sum of addresses, protocol and length, as the VM leaves it to
        the device to make the checksum."""
        _, client, _, fixed = FAMILIES[version]
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        data = (socket.inet_pton(family, fixed) +
                socket.inet_pton(family, client) +
                struct.pack('!II', 20 + SEGMENT * SEGMENTS,
                            socket.IPPROTO_TCP))
        return total(data)
