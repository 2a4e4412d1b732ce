# SPDX-License-Identifier: Apache-2.0
"""Files that we write are read by scapy, and the other way round."""

import contextlib
import io
import struct

from scapy import utils
from scapy.layers import inet
from scapy.layers import l2

from octavia_xdp_provider.ctl import capture
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import pcapng
from octavia_xdp_provider.tests.unit import base

FRAME = packet.frame(packet.Wanted('udp', '198.51.100.7', '203.0.113.10',
                                   1, 2, payload=b'odd'))
NOW = 1_700_000_000_123_456_789


def options_of(block):
    """{code: value} of an enhanced packet block's bytes."""
    kept, = struct.unpack_from('<I', block, 20)
    at, options = 28 + (kept + 3 & ~3), {}
    while at < len(block) - 4:
        code, length = struct.unpack_from('<HH', block, at)
        if not code:
            break
        options[code] = block[at + 4:at + 4 + length]
        at += 4 + (length + 3 & ~3)
    return options


class TestWriter(base.TestCase):

    def setUp(self):
        super().setUp()
        self.file = io.BytesIO()
        self.writer = pcapng.Writer(self.file, 'test')

    def test_scapy_reads_what_we_write(self):
        eth0 = self.writer.interface('eth0@in', 256)
        self.writer.packet(eth0, NOW, FRAME, len(FRAME),
                           pcapng.Marks(number=7, queue=3))
        eth1 = self.writer.interface('eth1@out', 256)
        self.writer.packet(eth1, NOW + 1000, FRAME[:30], len(FRAME),
                           pcapng.Marks(True, 7, None, 3, 'XDP_TX'))
        self.file.seek(0)
        reader = utils.PcapNgReader(self.file)
        first, second = reader.read_packet(), reader.read_packet()
        self.assertRaises(EOFError, reader.read_packet)
        self.assertEqual(FRAME, bytes(first))
        self.assertEqual(2, first[inet.UDP].dport)
        self.assertEqual(('eth0@in', 1, None), (
            first.sniffed_on, first.direction, first.comment))
        self.assertEqual(('eth1@out', 2, b'XDP_TX'), (
            second.sniffed_on, second.direction, second.comment))
        self.assertEqual(len(FRAME), second.wirelen)
        self.assertEqual(FRAME[:30], second.original)
        self.assertEqual(NOW, int(first.time * 10 ** 9))
        self.assertEqual(1000, int((second.time - first.time) * 10 ** 9))

    def test_options_are_padded_to_four_bytes(self):
        eth0 = self.writer.interface('eth0', 256)
        for cut in range(5):
            start = self.file.tell()
            self.writer.packet(eth0, NOW, FRAME[:20 + cut], len(FRAME),
                               pcapng.Marks(True, 2 ** 60, 1, 4, 'x' * cut))
            block = self.file.getvalue()[start:]
            self.assertEqual(0, len(block) % 4)
            self.assertEqual(len(block), struct.unpack('<I', block[-4:])[0])
            options = options_of(block)
            self.assertEqual(struct.pack('<I', 2), options[2])
            self.assertEqual(struct.pack('<Q', 2 ** 60), options[5])
            self.assertEqual(struct.pack('<I', 1), options[6])
            self.assertEqual(struct.pack('<BQ', 2, 4), options[7])
            self.assertEqual(b'x' * cut, options.get(1, b''))

    def test_we_read_what_we_write(self):
        eth0 = self.writer.interface('eth0', 256)
        self.writer.packet(eth0, NOW, FRAME, len(FRAME),
                           pcapng.Marks(number=1))
        self.writer.packet(eth0, NOW, FRAME[:40], len(FRAME),
                           pcapng.Marks(out=True))
        self.file.seek(0)
        self.assertEqual(
            [capture.Captured(1, FRAME),
             capture.Captured(2, FRAME[:40] + bytes(len(FRAME) - 40),
                              len(FRAME) - 40, True)],
            list(capture.read(self.file)))


class TestReader(base.TestCase):

    def read(self, data):
        return list(capture.read(io.BytesIO(data)))

    def written(self, writer, packets, **options):
        path = self.create_tempfiles([('capture', '')], ext='')[0]
        with writer(path, **options) as out:
            for frame in packets:
                out.write(frame)
        with open(path, 'rb') as file:
            return file.read()

    def test_captures_of_scapy_are_read_in_all_formats(self):
        frames = [l2.Ether(FRAME), l2.Ether(FRAME + bytes(5))]
        for order in '<>':
            for nano in (False, True):
                data = self.written(utils.PcapWriter, frames, endianness=order,
                                    nano=nano)
                self.assertEqual(
                    [bytes(frame) for frame in frames],
                    [captured.frame for captured in self.read(data)])
        data = self.written(utils.PcapNgWriter, frames)
        self.assertEqual([bytes(frame) for frame in frames],
                         [captured.frame for captured in self.read(data)])

    def test_raw_ip_captures_get_a_link_header(self):
        data = self.written(utils.PcapWriter, [inet.IP(FRAME[14:])],
                            linktype=101)
        self.assertEqual(FRAME[12:], self.read(data)[0].frame[12:])

    def test_unknown_link_types_are_refused_by_number(self):
        data = self.written(utils.PcapWriter, [inet.IP(FRAME[14:])],
                            linktype=113)
        error = self.assertRaises(capture.CaptureError, self.read, data)
        self.assertIn('113', str(error))

    def test_cut_and_broken_captures_do_not_crash_the_reader(self):
        for writer in (utils.PcapWriter, utils.PcapNgWriter):
            data = self.written(writer, [l2.Ether(FRAME)] * 2)
            whole = len(self.read(data))
            for length in range(len(data)):
                try:
                    captured = self.read(data[:length])
                except capture.CaptureError:
                    continue
                self.assertLess(len(captured), whole, length)
            for position in range(len(data)):
                broken = bytearray(data)
                broken[position] ^= 0xff
                with contextlib.suppress(capture.CaptureError):
                    self.read(bytes(broken))

    def test_files_that_are_no_captures_are_refused(self):
        for data in (b'', b'abc', b'#!/bin/sh\n'):
            self.assertRaises(capture.CaptureError, self.read, data)
