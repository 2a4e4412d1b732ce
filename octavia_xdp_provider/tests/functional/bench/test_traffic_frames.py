# SPDX-License-Identifier: Apache-2.0
"""Frames of the generator are those that scapy makes, byte for byte."""

import socket
import threading

from scapy import packet as scapy_packet
from scapy import utils
from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from bench.traffic import flows
from bench.traffic import formats
from bench.traffic import interface
from octavia_xdp_provider.tests.functional.bench import traffic_bed

COUNT = 40
# Many times as long as COUNT packets take: a generator that gets no processor
# for a while leaves out what would have been due then.
SECONDS = 1
SIZES = ((94, 1), (95, 1), (128, 1), (200, 1), (1514, 1))
GOLDEN = 0x9e3779b1  # see src/flow.h
IP = {4: inet.IP, 6: inet6.IPv6}


def built_anew(frame):
    """The frame, with lengths and checksums as scapy computes them."""
    parsed = l2.Ether(frame)
    # What scapy calls padding would not be in the checksum.
    for layer, fields in ((inet.IP, ('chksum', 'len')),
                          (inet6.IPv6, ('plen',)), (inet.TCP, ('chksum',)),
                          (inet.UDP, ('chksum', 'len'))):
        if layer in parsed:
            for field in fields:
                delattr(parsed[layer], field)
    return bytes(parsed)


class TestFrames(traffic_bed.TrafficCase):

    def capture(self, address, protocol, count=COUNT, **fields):
        """Frames as they leave the generator, and what was measured."""
        destinations = (interface.Destination(address, 4433, protocol),)
        ethertype = b'\x86\xdd' if ':' in address else b'\x08\x00'
        port = (4433).to_bytes(2, 'big')
        at = 56 if ':' in address else 36
        with traffic_bed.frames(self.run_name, 'between', 'front') as wire:
            captured = []
            thread = threading.Thread(target=lambda: captured.extend(
                traffic_bed.received(
                    wire, lambda data: data[12:14] == ethertype and
                    data[at:at + 2] == port, count)))
            thread.start()
            measured = self.traffic.measure(
                interface.Profile(destinations, flows=16, **fields), 500,
                SECONDS)
            thread.join(traffic_bed.PATIENCE)
        self.assertEqual(count, len(captured))
        return captured, measured

    def assert_as_scapy_makes_it(self, frame):
        self.assertEqual(built_anew(frame).hex(), frame.hex())
        parsed = l2.Ether(frame)
        self.assertNotIn(scapy_packet.Padding, parsed)
        ends = self.bed.hosts
        self.assertEqual(
            (ends['generator'].interfaces['front'].mac,
             ends['between'].interfaces['front'].mac),
            (parsed.src, parsed.dst))
        return parsed

    def signature(self, payload):
        reader = formats.Reader(bytes(payload), 'payload')
        signature = reader.structure('signature')
        self.assertEqual(formats.constants.SIGNATURE_MAGIC, signature.magic)
        self.assertEqual(0, signature.destination)
        return signature

    def assert_numbers(self, signatures, lengths):
        """In order, each in the flow and of the size that its number gives."""
        numbers = [each.number for each in signatures]
        self.assertEqual(list(range(len(numbers))), numbers)
        seed = signatures[0].stream * GOLDEN & 0xffffffff
        self.assertEqual(
            list(flows.flows(flows.numpy.array(numbers), 16, seed)),
            [each.flow for each in signatures])
        mixed = flows.mix(flows.numpy.array(numbers) ^ seed)
        self.assertEqual(
            [SIZES[(int(each) * GOLDEN & 0xffffffff) * len(SIZES) >> 32][0]
             for each in mixed], lengths)
        times = [each.time_high << 32 | each.time_low for each in signatures]
        self.assertEqual(sorted(times), times)

    def check_established(self, address, protocol, layer, header):
        frames, measured = self.capture(address, protocol, sizes=SIZES)
        self.assertEqual(measured.sent, measured.received)
        signatures, flow_of_port = [], {}
        for frame in frames:
            parsed = self.assert_as_scapy_makes_it(frame)
            payload = bytes(parsed[layer].payload)
            signatures.append(self.signature(payload[header:]))
            self.assertEqual(
                bytes(len(payload) - header -
                      formats.constants.SIGNATURE_LENGTH),
                payload[header + formats.constants.SIGNATURE_LENGTH:])
            key = parsed[IP[6 if ':' in address else 4]].src, (
                parsed[layer].sport)
            self.assertEqual(signatures[-1].flow,
                             flow_of_port.setdefault(key, signatures[-1].flow))
        self.assertEqual(len(flow_of_port), len(set(flow_of_port.values())))
        self.assert_numbers(signatures, [len(frame) for frame in frames])
        return frames

    def test_udp(self):
        for address in (traffic_bed.IPV4, traffic_bed.IPV6):
            self.check_established(address, 'udp', inet.UDP, 0)

    def test_tcp(self):
        for address in (traffic_bed.IPV4, traffic_bed.IPV6):
            for frame in self.check_established(address, 'tcp', inet.TCP, 0):
                self.assertEqual('PA', str(l2.Ether(frame)[inet.TCP].flags))

    def test_quic(self):
        length = formats.constants.QUIC_SHORT_LENGTH
        for address in (traffic_bed.IPV4, traffic_bed.IPV6):
            identifiers = {}
            for frame in self.check_established(address, 'quic', inet.UDP,
                                                length):
                header = bytes(l2.Ether(frame)[inet.UDP].payload)[:length]
                self.assertEqual(0x42, header[0])
                port = l2.Ether(frame)[inet.UDP].sport
                self.assertEqual(header[1:9], identifiers.setdefault(
                    port, header[1:9]))

    def test_what_opens_flows_of_tcp(self):
        for address in (traffic_bed.IPV4, traffic_bed.IPV6):
            frames, measured = self.capture(address, 'tcp', 16, kind='opened',
                                            sizes=((94, 1),))
            self.assertEqual((16, 16), measured.opened)
            ports = set()
            for frame in frames:
                segment = self.assert_as_scapy_makes_it(frame)[inet.TCP]
                self.assertEqual('S', str(segment.flags))
                self.assertEqual([('MSS', 1460)], segment.options)
                ports.add((segment.underlayer.src, segment.sport))
            self.assertEqual(16, len(ports))

    def test_what_opens_flows_of_quic(self):
        for address in (traffic_bed.IPV4, traffic_bed.IPV6):
            frames, measured = self.capture(address, 'quic', 16,
                                            kind='opened', sizes=((94, 1),))
            self.assertEqual((16, 16), measured.opened)
            for frame in frames:
                datagram = bytes(self.assert_as_scapy_makes_it(frame)[
                    inet.UDP].payload)
                self.assertEqual(1200, len(datagram))
                # Initial of version 1, identifiers of 8 bytes and of none.
                self.assertEqual('c30000000108', datagram[:6].hex())
                self.assertEqual('0000', datagram[14:16].hex())
                length = int.from_bytes(datagram[16:18], 'big') & 0x3fff
                self.assertEqual(len(datagram) - 18, length)

    def test_a_flood_of_syns(self):
        for size in (64, 66, 94):
            frames, _ = self.capture(
                traffic_bed.IPV4, 'tcp', kind='syn', sizes=((size, 1),))
            for frame in frames:
                self.assertEqual(size, len(frame))
                parsed = l2.Ether(frame)
                self.assertEqual('S', str(parsed[inet.TCP].flags))
                exact = frame[:14 + parsed[inet.IP].len]
                # Of a right checksum and what it covers the sum is none;
                # scapy does not keep options behind the end of options.
                self.assertEqual(0, utils.checksum(exact[14:34]))
                self.assertEqual(0, inet.in4_chksum(
                    socket.IPPROTO_TCP, parsed[inet.IP], exact[34:]))
                self.assertEqual(('MSS', 1460),
                                 parsed[inet.TCP].options[0])
                self.assertEqual(bytes(len(frame) - len(exact)),
                                 frame[len(exact):])
