# SPDX-License-Identifier: Apache-2.0
"""What is sent through a router arrives, and is counted, each packet."""

from oslotest import base

from bench import errors
from bench.traffic import interface
from octavia_xdp_provider.tests.functional.bench import traffic_bed


def to(*destinations, protocol='udp'):
    return tuple(interface.Destination(address, 80, protocol)
                 for address in destinations)


class TestTraffic(base.BaseTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        traffic_bed.build_programs()
        opened = traffic_bed.traffic()
        cls.bed, cls.traffic = cls.enterClassContext(opened)

    def assert_all_arrived(self, found, sent=None):
        if sent is not None:
            # A generator that waits for a processor sends less.
            self.assertTrue(0 < found.sent <= sent + 1, found)
        self.assertEqual(found.sent, found.received, found)
        self.assertEqual((0, 0, 0, 0), (
            found.lost, found.duplicated, found.flows_with_loss,
            found.refused), found)
        self.assertEqual(
            {key: (sent, sent) for key, (sent, _)
             in found.by_destination.items()}, found.by_destination)
        self.assertEqual(found.sent, sum(found.by_receiver.values()))
        timeline = self.traffic.timeline()
        self.assertEqual(found.sent, sum(sent for _, sent, _ in timeline))
        self.assertEqual(0, sum(lost for _, _, lost in timeline))

    def test_every_packet_that_was_sent_is_received_once(self):
        found = self.traffic.measure(
            interface.Profile(to(traffic_bed.IPV4)), 5000, 0.5)

        self.assert_all_arrived(found, 2500)
        self.assertEqual({'sink': found.sent, 'member': 0}, found.by_receiver)
        self.assertEqual({'p50', 'p90', 'p99', 'p999', 'max'},
                         set(found.latency_ns))
        self.assertTrue(0 < found.latency_ns['p50'] <=
                        found.latency_ns['p999'] <= found.latency_ns['max'])

    def test_a_frame_too_small_for_the_signature_is_refused(self):
        error = self.assertRaises(
            errors.BenchError, self.traffic.measure,
            interface.Profile(to(traffic_bed.IPV6)), 1000, 0.1)

        self.assertIn('64 bytes', str(error))
        self.assertIn('82', str(error))
