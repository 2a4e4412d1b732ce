# SPDX-License-Identifier: Apache-2.0
"""The streams that a generator is told to send."""

import collections
import ipaddress
import itertools
import pathlib
import re

import hypothesis
from hypothesis import strategies

import bench
from bench import errors
from bench.traffic import flows
from bench.traffic import formats
from bench.traffic import interface
from bench.traffic import sizes
from bench.traffic import streams
from octavia_xdp_provider.tests.support import untimed
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench.profiles import make
from octavia_xdp_provider.tests.unit.bench.profiles import to

DOCUMENT = (pathlib.Path(bench.__file__).parents[1] /
            'doc/source/contributor/benchmarks/traffic.rst')
IPV4, IPV6 = '203.0.113.1', '2001:db8::1'


class TestSizes(base.TestCase):

    def test_the_smallest_frames_are_those_of_the_document(self):
        rows = re.findall(r'^(UDP|TCP|QUIC|SYN) .*?(\d+) +(\d+)$',
                          DOCUMENT.read_text(), re.MULTILINE)
        self.assertEqual(4, len(rows))
        for name, ipv4, ipv6 in rows:
            kind = 'syn' if name == 'SYN' else 'established'
            protocol = 'tcp' if name == 'SYN' else name.lower()
            self.assertEqual([int(ipv4), int(ipv6)], [
                sizes.smallest(each, kind)
                for each in to(IPV4, IPV6, protocol=protocol)])

    def test_only_what_has_room_for_the_signature_is_sent(self):
        for protocol in formats.PROTOCOLS:
            destination, = to(IPV4, protocol=protocol)
            low = sizes.smallest(destination, 'established')
            make(interface.Profile((destination,), sizes=((low, 1),)))
            for wrong in (low - 1, 3073):
                error = self.assertRaises(
                    errors.BenchError, make,
                    interface.Profile((destination,), sizes=((wrong, 1),)))
                self.assertIn(f'{wrong} bytes', str(error))
                self.assertIn(f'from {low} to 3072', str(error))

    def test_weights_of_sizes_are_exact(self):
        self.assertEqual(
            {64: 7, 570: 4, 1514: 1},
            dict(collections.Counter(sizes.expanded(
                ((64, 14), (570, 8), (1514, 2))))))
        error = self.assertRaises(errors.BenchError, sizes.expanded,
                                  ((64, 4001), (65, 1000)))
        self.assertIn('5001', str(error))


class TestStreams(base.TestCase):

    def test_what_cannot_be_sent_is_refused_by_its_name(self):
        cases = {
            '0 destinations': {'destinations': ()},
            'does not appear': {'destinations': to('203.0.113.256')},
            "kind 'other'": {'kind': 'other'},
            "protocol 'sctp'": {'destinations': to(IPV4, protocol='sctp')},
            'udp has no SYN': {'kind': 'syn'},
            'nothing opens flows of udp': {'kind': 'opened'},
            'port 0': {'destinations': to(IPV4, port=0)},
            'weight 0': {'destinations': to(IPV4, weight=0)},
            'flows to 2 destinations': {
                'destinations': to(IPV4, '203.0.113.2'), 'flows': 1},
            '16777217 flows': {'flows': 16777217},
            'each packet would be a SYN': {
                'destinations': to(IPV4, protocol='tcp'), 'kind': 'opened',
                'flows': 0},
            'clients of IPv4': {'sources': '2001:db8::/64'},
            'host bits set': {'sources': '198.18.0.1/16'},
            'from 2 addresses': {'sources': '198.18.0.0/30',
                                 'flows': 3 * 64512},
            'weight 0; at least 1': {'sizes': ((64, 0),)},
            'MTU of 1500': {'sizes': ((1515, 1),)},
        }
        for text, fields in cases.items():
            profile = interface.Profile(**{'destinations': to(IPV4),
                                           **fields})
            error = self.assertRaises(errors.BenchError, make, profile)
            self.assertIn(text, str(error))

    def test_rates_and_times_that_make_no_sense_are_refused(self):
        profile = interface.Profile(to(IPV4))
        for rate, seconds in ((0, 1), (-1, 1), (float('nan'), 1), (1, 0),
                              (1, 3601)):
            self.assertRaises(errors.BenchError, make, profile, rate, seconds)

    def test_opening_too_many_flows_is_refused(self):
        profile = interface.Profile(to(IPV4, protocol='tcp'), 100000,
                                    ((74, 1),), 'opened')
        make(profile, rate=1000)
        error = self.assertRaises(errors.BenchError, make, profile, 100)
        self.assertIn('100000 flows at 100', str(error))

    @untimed.settings
    @hypothesis.given(
        strategies.lists(strategies.integers(1, 50), min_size=1, max_size=20),
        strategies.one_of(strategies.just(0), strategies.integers(20, 90000)))
    def test_destinations_have_flows_by_weight(self, weights, count):
        profile = interface.Profile(tuple(
            interface.Destination(f'203.0.113.{index}', 80, weight=weight)
            for index, weight in enumerate(weights)), flows=count)
        slots = collections.Counter(make(profile).slots.tolist())

        total = sum(slots.values())
        self.assertEqual(min(count or 65536, 65536), total)
        for index, weight in enumerate(weights):
            share = total * weight / sum(weights)
            # A share below one is rounded up to one, at the others' cost.
            self.assertTrue(1 <= slots[index] <= share + len(weights) + 1)
            self.assertGreaterEqual(slots[index], share - len(weights) - 1)

    @untimed.settings
    @hypothesis.given(strategies.integers(1, 8), strategies.integers(16, 5000))
    def test_generators_share_flows_and_have_clients_of_their_own(
            self, count, total):
        profile = interface.Profile(to(IPV4, IPV6), total, ((100, 1),))
        parts = [make(profile, part=(index, count)) for index in range(count)]

        self.assertEqual(total, sum(part.flows for part in parts))
        ends = [(part.structure.clients_v4, part.structure.clients)
                for part in parts]
        for (first, length), (then, _) in itertools.pairwise(ends):
            self.assertEqual(first + length, then)
        self.assertEqual(int(ipaddress.ip_address('198.18.0.1')), ends[0][0])
        self.assertEqual(65534, sum(length for _, length in ends))

    def test_a_file_has_all_streams_one_behind_the_other(self):
        profile = interface.Profile(to(IPV4, IPV6), 5, ((100, 2), (200, 1)))
        data = streams.send_file([make(profile), make(profile)])

        reader = formats.Reader(data, 'file')
        self.assertEqual(2, reader.head('send_file').streams)
        for _ in range(2):
            stream = reader.structure('stream')
            self.assertEqual((2, 5, 3, 0x120), (
                stream.destinations, stream.slots, stream.sizes, stream.id))
            for address in (IPV4, IPV6):
                destination = reader.structure('destination')
                packed = ipaddress.ip_address(address).packed
                self.assertEqual(
                    packed, bytes(destination.address)[:len(packed)])
                self.assertEqual(7, destination.ifindex)
            reader.bytes(2 * (5 + 3))
        self.assertRaises(errors.BenchError, reader.bytes, 1)

    def test_a_file_of_another_version_is_refused(self):
        error = self.assertRaises(
            errors.BenchError, formats.Reader(b'\1' + bytes(7), 'what').head,
            'sent_file')
        self.assertIn('of version 1', str(error))

    @untimed.settings
    @hypothesis.given(strategies.lists(strategies.integers(0, 2 ** 32 - 1)),
                      strategies.integers(1, 2 ** 24),
                      strategies.integers(0, 2 ** 32 - 1))
    def test_flows_are_those_of_plain_arithmetic(self, numbers, count, seed):
        def mix(value):
            value ^= value >> 16
            value = value * 0x7feb352d & 0xffffffff
            value ^= value >> 15
            value = value * 0x846ca68b & 0xffffffff
            return value ^ value >> 16
        self.assertEqual(
            [mix(number ^ seed) * count >> 32 for number in numbers],
            [int(flow) for flow in flows.flows(
                flows.numpy.array(numbers, 'u8'), count, seed)])
