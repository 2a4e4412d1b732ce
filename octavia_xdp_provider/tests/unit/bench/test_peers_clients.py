# SPDX-License-Identifier: Apache-2.0
"""Parsers of clients' output: as wrk 4.1.0, h2load 1.52.0 and iperf3 3.12
print it, complete and broken."""

import json
import pathlib
import types

from bench import errors
from bench.traffic.clients import h2load
from bench.traffic.clients import iperf3
from bench.traffic.clients import result
from bench.traffic.clients import wrk
from octavia_xdp_provider.tests.unit import base

WRK = '''\
Running 1s test @ http://127.0.0.1:18999/
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   311.46us  816.26us   9.05ms   90.98%
    Req/Sec    45.68k    15.51k   60.45k    81.82%
  49949 requests in 1.11s, 7.29MB read
Requests/sec:  45091.76
Transfer/sec:      6.58MB
{"duration_us": 1107719, "requests": 49949, "latency_us": {"p50": 51, \
"p90": 951, "p99": 4218, "max": 9047}, "errors": {"connect": 0, "read": 0, \
"write": 0, "status": 0, "timeout": 0}}
'''
WRK_503 = '''\
  41000 requests in 1.00s, 14.62MB read
  Non-2xx or 3xx responses: 41000
{"duration_us": 1000294, "requests": 41000, "latency_us": {"p50": 54, \
"p90": 1314, "p99": 7993, "max": 17111}, "errors": {"connect": 0, "read": 3, \
"write": 0, "status": 41000, "timeout": 2}}
'''
WRK_REFUSED = 'unable to connect to 127.0.0.1:18998 Connection refused\n'

H2LOAD = '''\
finished in 1.00s, 8493.00 req/s, 1.24MB/s
requests: 8493 total, 8495 started, 8493 done, 8493 succeeded, 0 failed, \
0 errored, 0 timeout
status codes: 8493 2xx, 0 3xx, 0 4xx, 0 5xx
'''
H2LOAD_503 = '''\
finished in 4.74ms, 1265.82 req/s, 462.32KB/s
requests: 6 total, 6 started, 6 done, 0 succeeded, 6 failed, 0 errored, \
0 timeout
status codes: 0 2xx, 0 3xx, 0 4xx, 6 5xx
'''
H2LOAD_503_LOG = '''\
1795457783601468\t503\t1304
1795457783601475\t503\t1340
1795457783602811\t503\t1188
1795457783602817\t503\t1206
1795457783604018\t503\t815
1795457783604031\t503\t821
'''
H2LOAD_NOBODY = '''\
finished in 254us, 0.00 req/s, 0B/s
requests: 6 total, 0 started, 0 done, 0 succeeded, 6 failed, 6 errored, \
0 timeout
'''
# Its end, of what is read here.
IPERF3 = json.dumps({'start': {}, 'intervals': [], 'end': {
    'sum_sent': {'start': 0, 'end': 1.000109, 'seconds': 1.000109,
                 'bytes': 2506096640, 'retransmits': 2, 'sender': True},
    'sum_received': {'start': 0, 'end': 1.002575, 'seconds': 1.002575,
                     'bytes': 2504785920, 'sender': True}}})
IPERF3_REFUSED = json.dumps({
    'start': {'connected': [], 'version': 'iperf 3.12'}, 'intervals': [],
    'end': {}, 'error': 'unable to connect to server: Connection refused'})


class TestWrk(base.TestCase):

    def test_of_a_whole_run(self):
        parsed = wrk.parse(WRK)
        self.assertEqual((49949, 1.107719), (parsed.done, parsed.seconds))
        self.assertAlmostEqual(45091.76, parsed.rate, 1)
        self.assertEqual({'p50': 51e-6, 'p90': 951e-6, 'p99': 4218e-6,
                          'max': 9047e-6}, parsed.latency_s)
        self.assertEqual([], parsed.marks)

    def test_what_went_wrong_is_a_mark(self):
        self.assertEqual(
            ['failures: 41000 answers of status 400 or more, 3 read errors, '
             '2 timeouts'], wrk.parse(WRK_503).marks)

    def test_what_it_does_not_say_is_an_error(self):
        for broken in (WRK_REFUSED, '', WRK.rpartition('{')[0],
                       WRK.rstrip()[:-9], WRK.replace('"p99"', '"p98"'),
                       WRK.replace('1107719', 'null')):
            error = self.assertRaises(errors.BenchError, wrk.parse, broken)
            self.assertIn('wrk printed no result', str(error))
        self.assertIn('Connection refused', str(self.assertRaises(
            errors.BenchError, wrk.parse, WRK_REFUSED)))

    def test_nothing_answered_is_an_error_with_the_reasons(self):
        error = self.assertRaises(errors.BenchError, wrk.parse,
                                  WRK_503.replace('41000', '0'))
        self.assertIn('nothing was answered', str(error))
        self.assertIn('2 timeouts', str(error))

    def test_its_command(self):
        host = types.SimpleNamespace(folder=pathlib.PurePosixPath('/folder'))
        words = wrk.Wrk(connections=8, keep_alive=False).command(
            host, '2001:db8::1', 80, 2.4)
        self.assertEqual('http://[2001:db8::1]:80/', words[-1])
        self.assertIn('Connection: close', words)
        self.assertEqual('2s', words[words.index('--duration') + 1])


class TestH2load(base.TestCase):

    def log(self, times):
        return ''.join(f'1\t200\t{time}\n' for time in times)

    def test_of_a_whole_run(self):
        # Nearest rank: of 100 times the 50th, 90th, 99th and last.
        parsed = h2load.parse(
            H2LOAD, self.log([*range(100, 0, -1)]))
        self.assertEqual((8493, 1.0), (parsed.done, parsed.seconds))
        self.assertEqual({'p50': 50e-6, 'p90': 90e-6, 'p99': 99e-6,
                          'max': 100e-6}, parsed.latency_s)
        self.assertEqual([], parsed.marks)

    def test_of_one_request_all_percentiles_are_its_time(self):
        parsed = h2load.parse(H2LOAD, self.log([7]))
        self.assertEqual({7e-6}, set(parsed.latency_s.values()))

    def test_what_went_wrong_is_a_mark(self):
        parsed = h2load.parse(H2LOAD_503, H2LOAD_503_LOG)
        self.assertEqual(['failures: 6 answers of status 400 or more'],
                         parsed.marks)
        self.assertEqual(4.74e-3, parsed.seconds)
        self.assertEqual(1340e-6, parsed.latency_s['max'])
        parsed = h2load.parse(
            H2LOAD.replace('0 failed, 0 errored, 0 timeout',
                           '9 failed, 5 errored, 2 timeout'), self.log([1]))
        self.assertEqual({'answers of status 400 or more': 4,
                          'requests without an answer': 3, 'timeouts': 2},
                         parsed.failures)

    def test_what_it_does_not_say_is_an_error(self):
        for output, log in (('', ''), (H2LOAD.splitlines()[0], ''),
                            (H2LOAD.replace('finished', 'ended'), ''),
                            (H2LOAD, 'no log\n'), (H2LOAD, '1\t200\tx\n')):
            error = self.assertRaises(errors.BenchError, h2load.parse, output,
                                      log)
            self.assertIn('h2load printed no result', str(error))

    def test_nothing_answered_is_an_error_with_the_reasons(self):
        error = self.assertRaises(errors.BenchError, h2load.parse,
                                  H2LOAD_NOBODY, '')
        self.assertIn('6 requests without an answer', str(error))


class TestIperf3(base.TestCase):

    def test_of_a_whole_run_what_was_received_counts(self):
        parsed = iperf3.parse(IPERF3)
        self.assertAlmostEqual(2504785920 / 1.002575, parsed.rate, 3)
        self.assertEqual({}, parsed.latency_s)

    def test_its_own_errors_are_ours(self):
        error = self.assertRaises(errors.BenchError, iperf3.parse,
                                  IPERF3_REFUSED)
        self.assertEqual('iperf3: unable to connect to server: Connection '
                         'refused', str(error))

    def test_what_it_does_not_say_is_an_error(self):
        for broken in ('', IPERF3[:-4], '[]', '{"end": {}}', '{"end": []}'):
            error = self.assertRaises(errors.BenchError, iperf3.parse, broken)
            self.assertIn('iperf3 printed no result', str(error))
        self.assertRaises(errors.BenchError, iperf3.parse,
                          IPERF3.replace('2504785920', '0'))


class TestResults(base.TestCase):

    def test_together_counts_add_up_and_the_worst_latency_stays(self):
        joined = result.together([
            result.Result(1.0, 100, {'p50': 1.0, 'p99': 3.0}, {'timeouts': 1}),
            result.Result(2.0, 50, {'p50': 2.0, 'p99': 2.5},
                          {'timeouts': 2, 'read errors': 1})])
        self.assertEqual(result.Result(
            2.0, 150, {'p50': 2.0, 'p99': 3.0},
            {'timeouts': 3, 'read errors': 1}), joined)
