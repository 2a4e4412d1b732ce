# SPDX-License-Identifier: Apache-2.0

import io
import time
from unittest import mock

from octavia_xdp_provider.ctl import capture
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import trace
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.tests.unit import base

FRAME = packet.frame(packet.Wanted('tcp', '2001:db8::7', '2001:db8::1', 1, 2))


def copied(number, out=False, **more):
    return inspection.PacketCopy(**dict({
        'time_ns': 1, 'number': number, 'ifindex': 1, 'queue': 0,
        'length': len(FRAME), 'action': 3 * out, 'out': out, 'data': FRAME},
        **more))


class Traced:
    """A trace that has these copies, read by read."""

    def __init__(self, *reads):
        self.reads = list(reads)

    def read(self, timeout):
        return self.reads.pop(0) if self.reads else []


class Sink:

    def __init__(self):
        self.copies = []

    def write(self, copy, when):
        self.copies.append((copy.number, copy.out))

    def flush(self):
        pass


class TestDoubt(base.TestCase):

    def test_vip_of_no_service_is_pointed_out(self):
        node = mock.Mock()
        node.services.return_value = [mock.Mock(key=mock.Mock(
            address='192.0.2.1'))]
        self.assertEqual('', trace._doubt(node, '192.0.2.1'))
        self.assertIn('no VIP', trace._doubt(node, '192.0.2.2'))


class TestFile(base.TestCase):

    def test_both_copies_are_written_with_their_marks(self):
        file = io.BytesIO()
        sink = trace.File(file, 256)
        sink.write(copied(7), 10 ** 18)
        sink.write(copied(7, out=True), 10 ** 18 + 1)
        file.seek(0)
        self.assertEqual(
            [(FRAME, False), (FRAME, True)],
            [(seen.frame, seen.out) for seen in capture.read(file)])
        self.assertEqual(1, file.getvalue().count(b'XDP_TX'))


class TestTrace(base.TestCase):

    def copy(self, limit, *reads):
        sink = Sink()
        trace._copy(Traced(*reads), sink, limit, lambda: False)
        return sink.copies

    def test_count_is_of_whole_packets(self):
        limit = trace.Limit(2, None)
        self.assertEqual(
            [(1, False), (1, True), (2, False), (2, True)],
            self.copy(limit, [copied(1), copied(1, True), copied(2)],
                      [copied(3), copied(2, True), copied(3, True)]))
        self.assertEqual(2, limit.packets)

    def test_packet_without_its_second_copy_is_written(self):
        limit = trace.Limit(1, None)
        self.assertEqual([(1, False)], self.copy(limit, [copied(1)]))
        # without the first copy the second says nothing
        limit = trace.Limit(1, None)
        self.assertEqual([(2, False), (2, True)], self.copy(
            limit, [copied(1, True), copied(2), copied(2, True)]))

    def test_limit_is_reached_after_the_seconds(self):
        with mock.patch.object(time, 'monotonic', side_effect=[0, 1, 9]):
            limit = trace.Limit(0, 5)
            self.assertFalse(limit.reached())
            self.assertTrue(limit.reached())

    def test_both_directions_are_lines_of_text(self):
        file = io.StringIO()
        text = trace.Text(file)
        text.write(copied(1), 5 * 10 ** 9)
        text.write(copied(1, True, data=FRAME[:20]), 5 * 10 ** 9)
        first, second = file.getvalue().splitlines()
        self.assertIn('lo in  TCP [2001:db8::7]:1 -> [2001:db8::1]:2', first)
        self.assertIn('lo out XDP_TX: the frame ends', second)

    def test_cut_packets_have_their_ports(self):
        self.assertIn('[2001:db8::1]:2', trace.describe(
            copied(1, data=FRAME[:60], length=1500)))
        self.assertNotIn(']:', trace.describe(copied(1, data=FRAME[:56])))
