# SPDX-License-Identifier: Apache-2.0
"""A sink takes off each outer header, and counts by signature alone."""

import contextlib
import json
import pathlib
import time

from oslotest import base
from scapy.contrib import geneve
from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from bench.traffic import formats
from bench.traffic import interface
from bench.traffic import latency
from bench.traffic import losses
from bench.traffic import next_hops
from bench.traffic import results
from bench.traffic import sinks
from bench.traffic import streams
from octavia_xdp_provider.tests.functional.bench import traffic_bed

FLOWS = 8
IDENTIFIER = 0x1234
SENT = 64
IPV4, IPV6 = traffic_bed.IPV4, traffic_bed.IPV6
OTHER_HOST = '02:00:00:00:00:09'
ETHERNET = l2.Ether()
OUTER_V4 = inet.IP(src='198.19.1.1', dst='198.19.1.2')
OUTER_V6 = inet6.IPv6(src='2001:db8:1::1', dst='2001:db8:1::2')
GUE = inet.UDP(sport=50000, dport=6080, chksum=0)
GENEVE = inet.UDP(sport=50000, dport=6081, chksum=0)
SEGMENTS = inet6.IPv6ExtHdrSegmentRouting(addresses=['2001:db8:1::2'])


def outers(version):
    """Each outer header that the product has, for a packet of a version."""
    ethertype = 0x0800 if version == 4 else 0x86dd
    for outer in (OUTER_V4, OUTER_V6):
        yield outer
        yield outer / GUE
        yield outer / l2.GRE(proto=ethertype)
        yield outer / l2.GRE(proto=ethertype, key_present=1, key=7)
        yield outer / GENEVE / geneve.GENEVE(proto=ethertype, vni=7)
    yield OUTER_V6 / SEGMENTS


class TestSink(base.BaseTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        traffic_bed.build_programs()
        cls.bed, run = cls.enterClassContext(traffic_bed.bed())
        hosts = [cls.bed.hosts['sink'], cls.bed.hosts['member']]
        stack = cls.enterClassContext(contextlib.ExitStack())
        cls.sinks = sinks.Sinks(hosts, stack)
        cls.wires = {
            name: cls.enterClassContext(
                traffic_bed.frames(run, 'between', device))
            for name, device in (('sink', 'back'), ('member', 'side'))}
        cls.macs = {host.name: cls.mac(host) for host in hosts}

    @staticmethod
    def mac(host):
        """Of its only interface."""
        device, = (end.name for end in host.interfaces.values() if end.peers)
        said = host.run(['ip', '-json', 'link', 'show', 'dev', device]).stdout
        return json.loads(said)[0]['address']

    def expect(self, address=IPV4):
        profile = interface.Profile(
            (interface.Destination(address, 80),), flows=FLOWS,
            sizes=((100, 1),))
        hop = next_hops.NextHop('x', 1, 1500, '02:00:00:00:00:01',
                                '02:00:00:00:00:02')
        self.stream = streams.make(profile, SENT, 1, {address: hop},
                                   IDENTIFIER)
        self.sinks.expect([self.stream])

    def payload(self, number, flow=None, stream=IDENTIFIER, at=None,
                magic=formats.constants.SIGNATURE_MAGIC, destination=0):
        at = time.monotonic_ns() if at is None else at
        return formats.encoded(formats.ffi.new('struct signature *', {
            'magic': magic, 'stream': stream, 'number': number,
            'flow': number % FLOWS if flow is None else flow,
            'destination': destination, 'time_high': at >> 32 & 0xffff,
            'time_low': at & 0xffffffff}))

    def packet(self, number=0, version=4, **fields):
        ip = (inet.IP(src='198.18.0.1', dst=IPV4) if version == 4 else
              inet6.IPv6(src='2001:2:0:1::1', dst=IPV6))
        return ip / inet.UDP(sport=1024, dport=80) / self.payload(
            number, **fields)

    def send(self, *packets, to='sink', mac=None):
        for packet in packets:
            frame = (packet if l2.Ether in packet or l2.Dot3 in packet
                     else ETHERNET / packet)
            frame.dst = mac or self.macs[to]
            self.wires[to].send(bytes(frame))

    def collect(self):
        self.assertTrue(self.sinks.wait_until_quiet())
        collected, _ = self.sinks.collect()
        return collected

    def sink(self, host='sink'):
        collected = self.collect()[host]
        return collected.streams[IDENTIFIER], {
            kind: count for kind, count in collected.foreign.items()
            if count and kind not in ('neighbour', 'arp')}

    def test_each_outer_header_is_taken_off(self):
        cases = [(outer, version) for version in (4, 6)
                 for outer in outers(version)]
        self.expect()
        for number, (outer, version) in enumerate(cases):
            self.send(outer / self.packet(number, version))

        stream, foreign = self.sink()
        bits = int.from_bytes(stream.numbers.tobytes(), 'little')
        self.assertEqual([], [
            (outer.command(), version) for number, (outer, version)
            in enumerate(cases) if not bits >> number & 1])
        self.assertEqual((len(cases), {}), (stream.received, foreign))

    def test_packets_without_outer_header_with_dscp_and_with_tags(self):
        self.expect()
        marked = self.packet(1)
        marked.tos = 0xb8
        self.send(
            self.packet(0), marked,
            ETHERNET / l2.Dot1Q(vlan=5) / self.packet(2),
            ETHERNET / l2.Dot1AD(vlan=5) / l2.Dot1Q(vlan=6) /
            self.packet(3, 6))

        stream, foreign = self.sink()
        self.assertEqual((4, {}), (stream.received, foreign))

    def test_tcp_with_options_and_quic(self):
        self.expect()
        address = inet.IP(src='198.18.0.1', dst=IPV4)
        self.send(
            address / inet.TCP(sport=1024, dport=80, flags='PA', options=[
                ('Timestamp', (1, 2)), ('NOP', None), ('NOP', None)]) /
            self.payload(0),
            address / inet.UDP(sport=1024, dport=443) / (
                b'\x42' + bytes(11) + self.payload(1)))

        stream, foreign = self.sink()
        self.assertEqual((2, {}), (stream.received, foreign))

    def test_duplicates_and_order(self):
        self.expect()
        # 8 and 16 are of one flow with 0; 1 and 2 of others.
        self.send(*(self.packet(number) for number in
                    (0, 16, 2, 8, 1, 8, 16, 0, 24)))

        stream, foreign = self.sink()
        self.assertEqual((6, 3, 1, {}), (stream.received, stream.duplicates,
                                         stream.reordered, foreign))

    def test_what_one_sink_misses_another_may_have(self):
        self.expect()
        self.send(*(self.packet(number) for number in range(0, 40)))
        self.send(*(self.packet(number) for number in range(38, 60)),
                  to='member')
        parts = [each.streams[IDENTIFIER] for each in self.collect().values()]
        sent = results.Sent(
            IDENTIFIER, SENT, 0, 0, 0, True, 0,
            losses.numpy.array([SENT]), losses.numpy.array([50, 0, 14]))

        compared = losses.of(self.stream, sent, parts)

        self.assertEqual((60, 2, 4), (compared.received, compared.duplicated,
                                      compared.lost))
        self.assertEqual([60], compared.destinations)
        self.assertEqual([(0.0, 50, 0), (0.1, 0, 0), (0.2, 14, 4)],
                         compared.timeline)

    def test_latencies_are_counted_within_one_percent(self):
        for nanoseconds in (10 ** 8, 10 ** 9, 15 * 10 ** 9, 400 * 10 ** 9):
            self.expect()
            before = time.monotonic_ns()
            self.send(self.packet(0, at=before - nanoseconds))
            stream, _ = self.sink()
            after = time.monotonic_ns() - before

            counted = latency.percentiles(stream.latencies, 1 << 48)['p50']
            self.assertTrue(nanoseconds <= counted <=
                            1.01 * (nanoseconds + after), counted)
            self.assertTrue(counted / 1.01 <= stream.latency_max <= counted)

    def test_a_time_stamp_of_the_future_has_no_latency(self):
        self.expect()
        self.send(self.packet(0, at=time.monotonic_ns() + 10 ** 12))

        stream, _ = self.sink()
        self.assertEqual((1, 1, 0), (stream.received, stream.early,
                                     int(stream.latencies.sum())))

    def test_numbers_that_cannot_be_are_counted_apart(self):
        self.expect()
        self.send(self.packet(SENT + 1), self.packet(0, flow=FLOWS),
                  self.packet(0, destination=1))

        stream, foreign = self.sink()
        self.assertEqual((0, 3, {}),
                         (stream.received, stream.invalid, foreign))

    def test_what_opens_flows_is_counted_apart(self):
        self.expect()
        opening = formats.constants.OPENING_MAGIC
        self.send(
            OUTER_V4 / inet.IP(dst=IPV4) / inet.TCP(
                flags='S', seq=opening << 16 | IDENTIFIER),
            inet.IP(dst=IPV4) / inet.UDP(dport=443) / (
                bytes(22) + self.payload(0, magic=opening)))

        stream, foreign = self.sink()
        self.assertEqual((0, 2, {}), (stream.received, stream.opened, foreign))

    def test_foreign_packets_by_kind(self):
        signed = self.payload(0)
        cases = {
            'stream': [self.packet(0, stream=IDENTIFIER + 1),
                       self.packet(0, stream=IDENTIFIER ^ 0x8000)],
            'icmp': [inet.IP(dst=IPV4) / inet.ICMP(),
                     inet6.IPv6(dst=IPV6) / inet6.ICMPv6EchoRequest()],
            'link': [l2.Ether(type=0x88cc) / bytes(46),
                     l2.Dot3() / bytes(46)],
            'bfd': [inet.IP(dst=IPV4) / inet.UDP(dport=3784) / bytes(24)],
            'tcp': [inet.IP(dst=IPV4) / inet.TCP(flags='S'),
                    inet.IP(dst=IPV4) / inet.TCP(flags='PA') / bytes(40)],
            'udp': [inet.IP(dst=IPV4) / inet.UDP(dport=80) / bytes(40),
                    inet.IP(dst=IPV4) / inet.UDP(dport=80) / signed[:-1]],
            'tunnelled': [
                OUTER_V4 / inet.IP(dst=IPV4) / inet.UDP() / bytes(40),
                OUTER_V6 / inet.IP(dst=IPV4) / inet.TCP(),
                OUTER_V4 / inet.IP(dst=IPV4) / inet.ICMP(),
                OUTER_V4 / OUTER_V4 / OUTER_V4 / OUTER_V4 / OUTER_V4 /
                self.packet(0)],
            'fragment': [inet.IP(dst=IPV4, flags='MF') / inet.UDP() / signed,
                         inet.IP(dst=IPV4, frag=3) / inet.UDP() / signed],
            'other': [inet.IP(dst=IPV4, proto=132) / bytes(20),
                      inet.IP(dst=IPV4, ihl=4) / bytes(20)],
        }
        self.expect()
        for packets in cases.values():
            self.send(*packets)

        stream, foreign = self.sink()
        self.assertEqual(0, stream.received + stream.opened + stream.invalid)
        self.assertEqual({kind: len(packets)
                          for kind, packets in cases.items()}, foreign)

    def test_what_a_switch_sends_to_all_counts_where_it_was_to_go(self):
        self.expect()
        for packet in (self.packet(0), OUTER_V4 / self.packet(1)):
            self.send(packet, mac=OTHER_HOST)
            self.send(packet)

        stream, foreign = self.sink()
        self.assertEqual((2, 0, {'other_host': 2}), (
            stream.received, stream.duplicates, foreign))

    def test_every_expectation_begins_with_nothing(self):
        self.expect()
        self.send(self.packet(0))
        self.assertEqual(1, self.sink()[0].received)

        self.expect()

        stream, foreign = self.sink()
        self.assertEqual((0, 0, 0, {}), (
            stream.received, stream.numbers.size, int(stream.latencies.sum()),
            foreign))

    def test_settings_of_another_version_are_refused(self):
        host = self.bed.hosts['sink']
        program = pathlib.Path(host.folder) / 'octavia-xdp-traffic'
        bad = pathlib.Path(host.folder) / 'bad'
        for data, text in ((b'\xff' * 8, 'version 3'), (b'', 'empty'),
                           (b'\3', 'too short'),
                           (b'\3\0\0\0\1\0\0\0', 'too short')):
            bad.write_bytes(data)
            done = host.run([str(program), 'send', str(bad), '/dev/null'],
                            check=False)
            self.assertEqual(1, done.returncode)
            self.assertIn(text, done.stdout)
