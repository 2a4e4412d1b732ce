# SPDX-License-Identifier: Apache-2.0
"""Undeliverable calls, through oslo.messaging's dispatcher."""

import logging
import threading
import types

import fixtures
import oslo_messaging
import prometheus_client

from octavia_xdp_provider.controller import bounded_calls
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import clocks


class Endpoint:
    target = oslo_messaging.Target(namespace='nodes', version='1.0')

    def fetch(self, context, host, since):
        return since + 1


class TestDispatcher(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = clocks.Clock()
        self.registry = prometheus_client.CollectorRegistry()
        self.dispatcher = bounded_calls.Dispatcher(
            'lb1', oslo_messaging.RPCDispatcher(
                [Endpoint()], oslo_messaging.NoOpSerializer()),
            bounded_calls.Rate(10, self.clock, self.clock.sleep),
            bounded_calls.Complaints(self.clock),
            metrics.Metrics(self.registry))

    def call(self, client_timeout=None, **message):
        return self.dispatcher.dispatch(types.SimpleNamespace(
            ctxt={}, client_timeout=client_timeout,
            message={'namespace': 'nodes', 'version': '1.0', **message}))

    def refused(self, **message):
        return self.assertRaises(
            oslo_messaging.ExpectedException, self.call, **message).exc_info

    def test_call_is_answered(self):
        self.assertEqual(8, self.call(
            method='fetch', args={'host': 'lb1', 'since': 7}))

    def test_refusals_are_logged_at_intervals(self):
        log = self.useFixture(fixtures.FakeLogger())
        for message in (
                {'method': 'nothing', 'args': {}},
                {'method': ['fetch'], 'args': {}},
                {'method': None},
                {'method': '__class__', 'args': {}},
                {'method': 'fetch', 'args': {'host': 'lb1'}},
                {'method': 'fetch', 'args': {'more': 1}},
                {'method': 'fetch', 'args': [1, 2]},
                {'method': 'fetch', 'args': {'host': 'lb1', 'since': {}}},
                {'method': 'fetch', 'args': {}, 'version': '9.0'},
                {'method': 'fetch', 'args': {}, 'version': {}},
                {'method': 'fetch', 'args': {}, 'namespace': 'driver'}):
            self.refused(**message)
        lines = log.output.count('lb1')
        self.assertEqual(1, lines, log.output)
        self.clock.now += bounded_calls.COMPLAINT_S
        self.refused(method='fetch', args={'host': 'lb1'})
        text = log.output
        self.assertEqual(2, text.count('of node lb1 failed')
                         + text.count('calls an unknown method'), text)

    def test_caller_learns_the_unsupported_version(self):
        kind, _, _ = self.refused(method='fetch', args={}, version='9.0')
        self.assertIs(oslo_messaging.UnsupportedVersion, kind)

    def test_refused_calls_count_in_the_rate(self):
        for _ in range(30):
            self.refused(method='nothing', args={})
        self.assertAlmostEqual(101.0, self.clock.now)

    def test_delayed_calls_are_counted(self):
        for _ in range(30):
            self.call(method='fetch', args={'host': 'lb1', 'since': 7})
        # The rate is 10 a second, with a burst of 20.
        self.assertEqual(10, self.registry.get_sample_value(
            'octavia_xdp_controller_delayed_calls_total', {'host': 'lb1'}))

    def test_calls_leave_no_thread(self):
        before = threading.active_count()
        for _ in range(5):
            self.refused(method='nothing', args={}, client_timeout=60)
        self.assertEqual(before, threading.active_count())


class TestFewLines(base.TestCase):

    def test_lines_beyond_the_limit_are_dropped(self):
        clock = clocks.Clock()
        few = bounded_calls.FewLines(clock)
        record = logging.makeLogRecord({'name': 'server'})
        passed = sum(few.filter(record) for _ in range(1000))
        self.assertEqual(bounded_calls.LINES_MAX, passed)
        clock.now += bounded_calls.LINES_S
        with self.assertLogs(bounded_calls.LOG.logger) as logs:
            self.assertTrue(few.filter(record))
        self.assertIn(f'{1000 - passed} further log lines of server',
                      logs.output[0])
        clock.now += bounded_calls.LINES_S
        with self.assertNoLogs(bounded_calls.LOG.logger):
            self.assertTrue(few.filter(record))


class TestRate(base.TestCase):

    def test_calls_beyond_the_rate_wait(self):
        clock = clocks.Clock()
        rate = bounded_calls.Rate(10, clock, clock.sleep)
        for _ in range(20):
            rate.wait()
        self.assertEqual(100.0, clock.now)
        for _ in range(50):
            rate.wait()
        self.assertAlmostEqual(105.0, clock.now)

    def test_pause_allows_no_more_than_the_burst(self):
        clock = clocks.Clock()
        rate = bounded_calls.Rate(10, clock, clock.sleep)
        clock.now += 3600
        for _ in range(20):
            rate.wait()
        self.assertEqual(3700.0, clock.now)
        for _ in range(10):
            rate.wait()
        self.assertAlmostEqual(3701.0, clock.now)
