# SPDX-License-Identifier: Apache-2.0
"""TRex as a generator: what it is asked, and what its packets are."""

import json
import pathlib

from oslotest import base

from bench import errors
from bench.traffic import interface
from bench.traffic import trex
from octavia_xdp_provider.tests.functional.bench import traffic_bed
from octavia_xdp_provider.tests.support import form

STAND_IN = pathlib.Path(__file__).with_name('trex_stand_in.py')
OK = {'result': {}}
HANDLER = 'ours'
OWN = {'port_id': 0, 'handler': HANDLER, 'api_h': 'api'}
OPENING = [
    ['api_sync_v2', {'name': 'STL', 'major': 5}, {'result': {'api_h': 'api'}}],
    ['acquire', {'port_id': 0, 'force': False, 'api_h': 'api'},
     {'result': HANDLER}],
]
CLOSING = [['stop_traffic', OWN, OK], ['remove_all_streams', OWN, OK],
           ['release', OWN, OK]]
STATISTICS = ['get_port_stats', {'port_id': 0, 'api_h': 'api'}, OK]


def status(state):
    return ['get_port_status', {'port_id': 0}, {'result': {'state': state}}]


def sending(streams, rate, seconds):
    return [
        ['remove_all_streams', OWN, OK],
        *(['add_stream', {**OWN, 'stream_id': index + 1}, OK]
          for index in range(streams)),
        STATISTICS,
        ['start_traffic', {
            **OWN, 'duration': seconds, 'force': False,
            'mul': {'type': 'pps', 'op': 'abs', 'value': rate}},
         {'result': {'multiplier': 1.0}}],
        status('TX'), status('STREAMS'), STATISTICS]


@form.in_long_form
class TestTrex(base.BaseTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        traffic_bed.build_programs()
        cls.bed, _ = cls.enterClassContext(traffic_bed.bed())

    def serve(self, conversation, lost=0):
        host = self.bed.hosts['generator']
        process = host.start(
            ['env', f'PYTHONPATH={traffic_bed.ROOT}', 'python', STAND_IN,
             '4501', json.dumps(conversation), 'front',
             self.bed.hosts['between'].interfaces['front'].mac, str(lost)],
            log='trex.log')
        self.addCleanup(process.stop)
        self.assertEqual('listening', process.line(30))
        return process

    def measure(self, profile, rate, conversation, lost=0, **fields):
        process = self.serve(conversation, lost)
        with trex.Trex().open(self.bed) as traffic:
            found = traffic.measure(profile, rate, 1, **fields)
            self.assertEqual([], traffic.timeline())
        self.assertEqual({'left': [], 'lost': lost},
                         json.loads(process.line(30)))
        return found

    def test_every_packet_is_counted(self):
        profile = interface.Profile(
            (interface.Destination(traffic_bed.IPV4, 80, 'udp', 2),
             interface.Destination(traffic_bed.IPV4, 80, 'tcp'),
             interface.Destination(traffic_bed.IPV6, 80, 'udp'),
             interface.Destination(traffic_bed.IPV6, 443, 'tcp')),
            flows=64, sizes=((94, 3), (300, 1)))
        found = self.measure(profile, 400, [
            *OPENING, *sending(8, 400, 1), *CLOSING])

        self.assertEqual((400, 400, 0, 0, 0, 0), (
            found.sent, found.received, found.lost, found.duplicated,
            found.reordered, found.flows_with_loss), found)
        self.assertEqual([], found.marks)
        self.assertIsNone(found.latency_ns)
        self.assertEqual(
            {f'{traffic_bed.IPV4}:80': (240, 240),
             f'[{traffic_bed.IPV6}]:80': (80, 80),
             f'[{traffic_bed.IPV6}]:443': (80, 80)}, found.by_destination)

    def test_what_is_lost_is_known(self):
        done = []
        profile = interface.Profile(
            (interface.Destination(traffic_bed.IPV4, 80),), flows=20)
        found = self.measure(
            profile, 200, [*OPENING, *sending(1, 200, 1), *CLOSING],
            lost=10, during=lambda: done.append(True))

        # 0, 10, 20 … 190, of 20 flows: two of them lose ten each.
        self.assertEqual((200, 180, 20, 2), (
            found.sent, found.received, found.lost, found.flows_with_loss))
        self.assertEqual([True], done)

    def test_a_trex_that_is_busy_is_asked_again(self):
        busy = {'error': {'code': -32001, 'message': 'try again'}}
        ticket = {'error': {'code': -32002, 'message': 'in progress',
                            'specific_err': '7'}}
        conversation = [
            OPENING[0], ['acquire', {}, busy], ['acquire', {}, ticket],
            ['get_async_results', {'ticket_id': 7, 'api_h': 'api'},
             {'result': HANDLER}], *sending(1, 50, 1), *CLOSING]
        found = self.measure(interface.Profile(
            (interface.Destination(traffic_bed.IPV4, 80),)), 50, conversation)

        self.assertEqual((50, 50), (found.sent, found.received))

    def test_a_refusal_is_shown(self):
        self.serve([OPENING[0], ['acquire', {}, {'error': {
            'code': -32000, 'message': 'no',
            'specific_err': 'port is owned by another'}}]])

        error = self.assertRaises(errors.BenchError, self._open)
        self.assertIn('port is owned by another', str(error))

    def test_without_trex_it_is_refused(self):
        error = self.assertRaises(errors.BenchError, self._open)

        self.assertIn('generator', str(error))
        self.assertIn('4501', str(error))
        self.assertIn('t-rex-64', str(error))

    def _open(self):
        with trex.Trex().open(self.bed):
            pass

    def test_what_trex_is_not_driven_to_send_is_refused(self):
        self.serve([*OPENING, ['remove_all_streams', OWN, OK], *CLOSING])
        quic = (interface.Destination(traffic_bed.IPV4, 443, 'quic'),)
        tcp = (interface.Destination(traffic_bed.IPV4, 80, 'tcp'),)
        with trex.Trex().open(self.bed) as traffic:
            for text, profile, fields in (
                    ('quic', interface.Profile(quic, sizes=((100, 1),)), {}),
                    ('syn', interface.Profile(tcp, 0, ((60, 1),), 'syn'), {}),
                    ('opened', interface.Profile(
                        tcp, sizes=((100, 1),), kind='opened'), {}),
                    ('use as many flows', interface.Profile(
                        tcp, 1, ((100, 1), (101, 1))), {}),
                    ('larger network', interface.Profile(
                        tcp, 64, ((100, 1),), sources='198.18.0.0/28'), {}),
                    ('beside', interface.Profile(tcp, sizes=((100, 1),)), {
                        'background': [interface.Background(
                            interface.Profile(tcp))]})):
                error = self.assertRaises(errors.BenchError, traffic.measure,
                                          profile, 10, 1, **fields)
                self.assertIn(text, str(error))
