# SPDX-License-Identifier: Apache-2.0
"""What is sent through a router is counted, each packet; what is lost, too."""

import json

from oslotest import base

from bench import errors
from bench.traffic import generator
from bench.traffic import interface
from bench.traffic import next_hops
from bench.traffic import programs
from bench.traffic import results
from bench.traffic import streams
from octavia_xdp_provider.tests.functional.bench import traffic_bed
from octavia_xdp_provider.tests.support import form

# Each packet whose number ends in this byte; the first byte of four.
LOST = 7
NUMBER_AT = 64 + 64  # bits: UDP's header, and what is before the number
RULES = f'''
table inet lose {{
    chain forward {{
        type filter hook forward priority 0;
        ip protocol udp @th,{NUMBER_AT},8 {LOST} drop
    }}
}}
'''


def to(*addresses, protocol='udp', weight=1):
    return tuple(interface.Destination(address, 80, protocol, weight)
                 for address in addresses)


class TestTraffic(traffic_bed.TrafficCase):

    def measure(self, destinations, rate=5000, seconds=0.5, background=(),
                during=None, **fields):
        return self.traffic.measure(
            interface.Profile(destinations, **fields), rate, seconds,
            during=during, background=background)

    def assert_all_arrived(self, result):
        self.assertGreater(result.sent, 0)
        self.assertEqual((0, 0, 0, 0, 0), (
            result.lost, result.duplicated, result.reordered,
            result.flows_with_loss, result.refused), result)
        self.assertEqual(result.sent, result.received, result)
        self.assertEqual(
            {key: (sent, sent) for key, (sent, _)
             in result.by_destination.items()}, result.by_destination)
        self.assertEqual(result.sent, sum(result.by_receiver.values()))
        self.assertEqual(dict.fromkeys(result.by_receiver, 0),
                         result.reordered_by_receiver)
        timeline = self.traffic.timeline()
        self.assertEqual(result.sent, sum(sent for _, sent, _ in timeline))
        self.assertEqual(0, sum(lost for _, _, lost in timeline))

    def test_every_packet_that_was_sent_is_received_once(self):
        result = self.measure(to(traffic_bed.IPV4))

        self.assert_all_arrived(result)
        # A generator that has to wait for a processor sends less, and is
        # marked.
        self.assertLessEqual(result.sent, 2501)
        self.assertEqual(
            result.sent < 0.99 * 2500 - 1,
            any('rate not reached' in mark for mark in result.marks))
        self.assertEqual({'sink': result.sent, 'member': 0},
                         result.by_receiver)
        self.assertEqual({'p50', 'p90', 'p99', 'p999', 'max'},
                         set(result.latency_ns))
        self.assertLess(0, result.latency_ns['p50'])
        self.assertLessEqual(result.latency_ns['p999'],
                             result.latency_ns['max'])

    @form.in_long_form
    def test_each_protocol_over_ipv4_and_ipv6_at_once(self):
        destinations = tuple(
            interface.Destination(address, port, protocol)
            for address in (traffic_bed.IPV4, traffic_bed.IPV6)
            for port, protocol in ((53, 'udp'), (80, 'tcp'), (443, 'quic')))

        result = self.measure(destinations, sizes=((94, 7), (570, 4),
                                                   (1514, 1)))

        self.assert_all_arrived(result)
        self.assertEqual(6, len(result.by_destination))

    @form.in_long_form
    def test_weights_and_several_receivers(self):
        result = self.measure(
            (*to(traffic_bed.IPV4, weight=3), *to(traffic_bed.IPV4_MEMBER)),
            rate=20000, flows=40000)

        self.assert_all_arrived(result)
        share = result.by_receiver['sink'] / result.sent
        self.assertTrue(0.7 < share < 0.8, share)

    @form.in_long_form
    def test_flows_are_opened_before(self):
        destinations = (*to(traffic_bed.IPV4, protocol='tcp'),
                        *to(traffic_bed.IPV6, protocol='quic'))

        result = self.measure(destinations, kind='opened', flows=500,
                              sizes=((94, 1),))

        self.assert_all_arrived(result)
        self.assertEqual((500, 500), result.opened)

    @form.in_long_form
    def test_a_million_flows_and_another_one_with_each_packet(self):
        for flows in (1 << 20, 0):
            result = self.measure(to(traffic_bed.IPV4), rate=None, flows=flows)

            # As fast as possible: what the router's queue had no room for.
            self.assertEqual(result.sent, result.received + result.lost)
            self.assertGreater(result.received, 0)
            self.assertLessEqual(result.refused, result.lost)
            self.assertEqual(0, result.duplicated)
            self.assertEqual(
                bool(result.refused),
                any('link' in mark for mark in result.marks))

    def test_each_packet_that_is_dropped_is_known(self):
        router = self.bed.hosts['between']
        router.run(['nft', '-f', '-'], stdin=RULES)
        self.addCleanup(router.run, ['nft', 'delete table inet lose'])

        result = self.measure(
            (*to(traffic_bed.IPV4), *to(traffic_bed.IPV4_MEMBER)), flows=4096)

        lost = len(range(LOST, result.sent, 256))
        self.assertGreater(lost, 0)
        self.assertEqual((lost, 0), (result.lost, result.duplicated), result)
        self.assertEqual(result.sent - lost, result.received)
        # Of so few, hardly two in one flow.
        self.assertTrue(lost - 3 <= result.flows_with_loss <= lost)
        self.assertEqual(lost, sum(sent - received for sent, received
                                   in result.by_destination.values()))
        at, numbered = 0, self.traffic.timeline()
        for _, sent, missing in numbered:
            self.assertEqual(
                sum(number % 256 == LOST
                    for number in range(at, at + sent)), missing)
            at += sent
        self.assertEqual(result.sent, at)

    @form.in_long_form
    def test_a_change_amid_traffic_shows_in_the_timeline(self):
        router = self.bed.hosts['between']

        def during():
            router.run(['ip', 'route', 'replace', 'blackhole',
                        '203.0.113.0/25'])
        self.addCleanup(self._restore_route)

        result = self.measure(to(traffic_bed.IPV4), seconds=1.5, during=during)

        timeline = self.traffic.timeline()
        self.assertGreater(result.lost, 0)
        self.assertEqual(result.lost, sum(lost for _, _, lost in timeline))
        self.assertEqual((timeline[-1][1],) * 2, timeline[-1][1:])

        result = self.measure(to(traffic_bed.IPV4))

        self.assertEqual((result.sent, 0), (result.lost, result.received))
        self.assertTrue(any('not one packet' in mark for mark in result.marks))

    def _restore_route(self):
        sink = self.bed.hosts['sink'].interfaces['back']
        self.bed.hosts['between'].run(
            ['ip', 'route', 'replace', '203.0.113.0/25', 'via',
             sink.addresses[0].split('/')[0]])

    @form.in_long_form
    def test_what_is_raised_meanwhile_is_raised(self):
        def during():
            raise errors.BenchError('meanwhile')

        error = self.assertRaises(errors.BenchError, self.measure,
                                  to(traffic_bed.IPV4), during=during)
        self.assertEqual('meanwhile', str(error))

    @form.in_long_form
    def test_a_flood_of_syns_beside_established_traffic(self):
        flood = interface.Profile(to(traffic_bed.IPV4, protocol='tcp'),
                                  flows=0, kind='syn', sizes=((64, 1),),
                                  sources='10.0.0.0/8')
        result = self.measure(
            to(traffic_bed.IPV4_MEMBER, protocol='tcp'), sizes=((74, 1),),
            background=[interface.Background(flood, 3000)])

        self.assert_all_arrived(result)
        (sent, received), = result.background
        self.assertEqual(sent, received)
        self.assertGreater(sent, 0)
        self.assertEqual({}, {kind: count for kind, count
                              in result.foreign_by_kind.items()
                              if kind not in ('neighbour', 'arp')})

    @form.in_long_form
    def test_a_flood_alone_is_counted(self):
        result = self.measure(to(traffic_bed.IPV4, protocol='tcp'), flows=0,
                              kind='syn', sizes=((60, 1),))

        self.assertEqual((result.sent, 0), (result.received, result.lost))
        self.assertEqual([], self.traffic.timeline())
        self.assertTrue(any('flood' in mark for mark in result.marks))

    @form.in_long_form
    def test_a_rate_that_cannot_be_reached_is_marked(self):
        result = self.measure(to(traffic_bed.IPV4), rate=1e9, seconds=0.2)

        self.assertIn(f'rate not reached: {result.sent / 0.2:.0f} of '
                      '1000000000', result.marks)

    @form.in_long_form
    def test_foreign_traffic_is_counted_apart(self):
        def during():
            with traffic_bed.frames(self.run_name, 'between', 'back') as wire:
                mac = bytes.fromhex(self.bed.hosts['sink'].interfaces[
                    'back'].mac.replace(':', ''))
                for _ in range(5):
                    wire.send(mac + bytes(6) + b'\x88\xcc' + bytes(46))
                    wire.send(mac + bytes(6) + b'\x08\x00' + bytes.fromhex(
                        '4500002000000000401100000a0000010a000002'
                        '00350035000c0000') + bytes(4))

        result = self.measure(to(traffic_bed.IPV4), during=during)

        self.assert_all_arrived(result)
        self.assertEqual(5, result.foreign_by_kind['link'])
        self.assertEqual(5, result.foreign_by_kind['udp'])
        self.assertEqual(sum(result.foreign_by_kind.values()), result.foreign)
        self.assertIn('foreign traffic at sink: 5 packets (udp)', result.marks)

    def test_what_cannot_be_sent_is_refused_by_name(self):
        for text, fields in (
                ('82', {'destinations': to(traffic_bed.IPV6)}),
                ('MTU', {'destinations': to(traffic_bed.IPV4),
                         'sizes': ((2000, 1),)}),
                ('unreachable', {'destinations': to('192.0.2.1')}),
                ('address of this host', {
                    'destinations': to('198.19.0.1')})):
            error = self.assertRaises(errors.BenchError, self.measure,
                                      **fields)
            self.assertIn(text, str(error))


@form.in_long_form
class TestTwoGenerators(base.BaseTestCase):

    def test_they_share_the_rate_and_have_flows_of_their_own(self):
        traffic_bed.build_programs()
        text = traffic_bed.BED.replace('role: generator\n',
                                       'role: generator\n    count: 2\n')
        with traffic_bed.traffic(text) as (made, opened, _):
            result = opened.measure(
                interface.Profile(to(traffic_bed.IPV4), 101), 4000, 0.5)
            each = [results.sent(host.read(host.folder / 'traffic-sent'),
                                 host.name)
                    for host in made.by_role('generator')]

        self.assertEqual(2, len(each))
        sent = [stream.sent for streams in each
                for stream in streams.values()]
        self.assertEqual(2, len(sent))
        for count in sent:
            self.assertTrue(0 < count <= 1001, sent)
        self.assertEqual((sum(sent), sum(sent), 0, 0), (
            result.sent, result.received, result.lost, result.duplicated))


@form.in_long_form
class TestBedsThatCannotBeMeasured(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        traffic_bed.build_programs()

    def test_a_link_that_takes_no_frames_is_an_error(self):
        text = traffic_bed.BED.replace(
            '    nic: {front: {receive_xdp: true}}\n',
            '    nic: {front: {offloads: {gro: off}}}\n')
        with traffic_bed.traffic(text) as (_, opened, _):
            error = self.assertRaises(
                errors.BenchError, opened.measure,
                interface.Profile(to(traffic_bed.IPV4)), 1000, 0.2)

        self.assertIn('has to have an XDP program', str(error))

    def test_programs_end_with_their_input_and_leave_nothing(self):
        profile = interface.Profile(to(traffic_bed.IPV4))
        hop = next_hops.NextHop('front', 1, 1500, '02:00:00:00:00:01',
                                '02:00:00:00:00:02')
        stream = streams.make(profile, 1000, 600, {traffic_bed.IPV4: hop},
                              0x50)
        with traffic_bed.bed() as (made, _):
            sink, generator = made.hosts['sink'], made.hosts['generator']
            done = sink.run([programs.install(sink), 'receive', 'back'],
                            stdin='count\n')
            self.assertEqual(
                [{'attached': 1, 'native': True},
                 {'received': 0, 'duplicates': 0, 'opened': 0}],
                [json.loads(line) for line in done.stdout.splitlines()])
            link, = json.loads(sink.run(
                ['ip', '-json', 'link', 'show', 'back']).stdout)
            self.assertNotIn('xdp', link)

            path = programs.install(generator)
            settings = programs.give(
                generator, streams.send_file([stream]), 'settings')
            result = generator.folder / 'result'
            for words, events in (('', 1), ('start\n', 3),
                                  ('start\nstop\n', 3)):
                done = generator.run([path, 'send', settings, str(result)],
                                     stdin=words)
                self.assertEqual(events, len(done.stdout.splitlines()))
            # Ten minutes were asked for.
            self.assertFalse(results.sent(
                generator.read(result), 'sent')[0x50].complete)

    def test_an_interface_that_has_a_program_is_an_error(self):
        with traffic_bed.traffic() as (made, _, _):
            error = self.assertRaises(
                errors.BenchError, self._open_again, made)

        self.assertIn('another XDP program', str(error))

    def _open_again(self, made):
        with generator.opened(made):
            pass
