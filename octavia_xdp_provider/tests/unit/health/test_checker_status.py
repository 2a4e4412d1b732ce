# SPDX-License-Identifier: Apache-2.0
"""The agent's report of the health checker."""

import contextlib
import json
import socket
import threading
import time
from unittest import mock

from octavia_xdp_provider.health import checker_status
from octavia_xdp_provider.manage import node_state
from octavia_xdp_provider.tests.unit import base

SUMMARY = {'boot': '0' * 16, 'checks': 3, 'up': 2, 'down': 1, 'unknown': 0,
           'stretch_percent': 100, 'late_p99_ms': 1.5, 'own_late_s': 0.25}


class TestCheckerStatus(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = self.create_tempfiles(
            [('x', '')])[0].rpartition('/')[0] + '/hc.sock'

    @contextlib.contextmanager
    def answering(self, text):
        """A health checker that says this and closes."""
        with socket.create_server(self.path, family=socket.AF_UNIX) as server:
            def serve():
                with server.accept()[0] as client, \
                        contextlib.suppress(OSError):
                    client.sendall(text.encode())
            thread = threading.Thread(target=serve)
            thread.start()
            yield
            thread.join()

    def read(self, text):
        with self.answering(text):
            return checker_status.read(self.path)

    def test_first_line_is_read(self):
        summary = self.read(f'{json.dumps(SUMMARY)}\n{{"key": "1"}}\n')
        del summary['stretch_percent'], summary['late_p99_ms']
        self.assertEqual({'checks': 3, 'up': 2, 'down': 1, 'unknown': 0,
                          'own_late_s': 0.25}, summary)

    def test_checker_that_does_not_answer_reports_nothing(self):
        self.assertIsNone(checker_status.read(self.path))
        with socket.create_server(self.path, family=socket.AF_UNIX), \
                mock.patch.object(checker_status, 'ANSWER_TIMEOUT_S', 0.01):
            self.assertIsNone(checker_status.read(self.path))

    def test_answer_that_makes_no_sense_is_no_report(self):
        for number, text in enumerate((
                '', '{', '[]\n', '7\n', '\xff\n', '[' * 60000 + '\n',
                '{"checks": "3", "up": -1, "down": true, "unknown": [1]}\n',
                '{"checks": 1e300, "late_p99_ms": NaN}\n')):
            self.path = f'{self.path}{number}'
            self.assertFalse(self.read(text), text)

    def test_answer_in_drops_times_out(self):
        def drip(server):
            with server.accept()[0] as client, \
                    contextlib.suppress(OSError):
                while True:
                    client.sendall(b' ')
                    time.sleep(0.001)

        with socket.create_server(self.path, family=socket.AF_UNIX) as server:
            thread = threading.Thread(target=drip, args=(server,))
            thread.start()
            with mock.patch.object(checker_status, 'ANSWER_TIMEOUT_S', 0.1):
                self.assertIsNone(checker_status.read(self.path))
            thread.join()

    def test_what_an_operator_sees(self):
        for state, text in (
                ({}, 'no answer'),
                ({'health_checker': None}, 'no answer'),
                ({'health_checker': SUMMARY}, '3 checks, 2 ms late'),
                ({'health_checker': dict(SUMMARY, stretch_percent=250)},
                 'overloaded: intervals at 250 %, 2 ms late')):
            self.assertEqual(text, node_state.health_checker(state))

    def settling(self, **fields):
        self.path += 'x'  # one server binds it once
        with self.answering(json.dumps({**SUMMARY, **fields}) + '\n'):
            return checker_status.settling(self.path)

    def test_checks_that_are_not_settled(self):
        self.assertEqual(
            checker_status.Settling({4: 7, 6: None}, 2, {'a', 'b'}, True),
            self.settling(
                uplinks={'4': {'as_of_ns': 9, 'since_ns': 7},
                         '6': {'as_of_ns': 9, 'since_ns': None}},
                unsettled=2, unsettled_keys=['a', 'b'], unwritten=True))
        self.assertEqual(
            checker_status.Settling({}, 0, frozenset(), False),
            self.settling(uplinks={'4': None, '6': None}, unsettled=0,
                          unsettled_keys=[], unwritten=False))

    def test_incomplete_answer_is_none(self):
        self.assertIsNone(self.settling())
        self.assertIsNone(self.settling(unsettled=1))
