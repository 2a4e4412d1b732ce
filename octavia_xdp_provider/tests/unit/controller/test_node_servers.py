# SPDX-License-Identifier: Apache-2.0
"""What a node's server lets by; the broker's part is a functional test."""

import fixtures
import oslo_messaging
import prometheus_client

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.controller import node_servers
from octavia_xdp_provider.tests.unit import base


class Endpoint:
    target = oslo_messaging.Target(namespace='nodes', version='2.0')

    def __init__(self):
        self.calls = []

    def report(self, context, host):
        raise errors.Refused('report.held', 'is no object', 'send one')

    def fetch(self, context, host, since):
        self.calls.append((host, since))
        return since

    def _secret(self, context, host):
        self.calls.append(('secret', host))


class Clock:
    """Time passes only where somebody sleeps."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class TestBoundEndpoint(base.TestCase):

    def setUp(self):
        super().setUp()
        self.endpoint = Endpoint()
        self.registry = prometheus_client.CollectorRegistry()
        self.clock = Clock()
        self.bound = node_servers.BoundEndpoint(
            'lb1', self.endpoint, node_servers.Rate(1000),
            metrics.Metrics(self.registry), self.clock)

    def refusal(self, method, **arguments):
        """What the caller is answered; that the server expects it."""
        expected = self.assertRaises(oslo_messaging.ExpectedException,
                                     method, {}, **arguments)
        kind, error, _ = expected.exc_info
        self.assertIs(errors.Refused, kind)
        return str(error)

    def test_a_node_calls_for_itself(self):
        self.assertEqual(7, self.bound.fetch({}, host='lb1', since=7))
        self.assertEqual([('lb1', 7)], self.endpoint.calls)
        self.assertIs(Endpoint.target, self.bound.target)

    def test_a_call_in_another_nodes_name_has_no_effect(self):
        for host in ('lb2', 'LB1', '', None, ['lb1'], {'lb1': 1}):
            self.assertIn('lb1', self.refusal(self.bound.fetch, host=host,
                                              since=7))
        self.refusal(self.bound.fetch, since=7)
        self.assertEqual([], self.endpoint.calls)

    def test_what_is_malformed_is_one_line_now_and_then(self):
        log = self.useFixture(fixtures.FakeLogger())
        for _ in range(5):
            self.assertIn('report.held',
                          self.refusal(self.bound.report, host='lb1'))
        self.assertEqual(1, len(log.output.splitlines()), log.output)
        self.assertIn('lb1: its report is refused', log.output)
        self.clock.now += node_servers.COMPLAINT_S
        self.refusal(self.bound.report, host='lb1')
        self.assertEqual(2, len(log.output.splitlines()), log.output)
        self.assertEqual(6, self.registry.get_sample_value(
            'octavia_xdp_controller_rpc_failures_total',
            {'kind': 'refused'}))

    def test_what_is_not_public_cannot_be_called(self):
        self.assertFalse(hasattr(self.bound, '_secret'))


class TestRate(base.TestCase):

    def test_what_is_beyond_the_rate_waits(self):
        clock = Clock()
        rate = node_servers.Rate(10, clock, clock.sleep)
        for _ in range(20):
            rate.wait()
        self.assertEqual(100.0, clock.now)
        for _ in range(50):
            rate.wait()
        self.assertAlmostEqual(105.0, clock.now)

    def test_a_pause_allows_no_more_than_the_burst(self):
        clock = Clock()
        rate = node_servers.Rate(10, clock, clock.sleep)
        clock.now += 3600
        for _ in range(20):
            rate.wait()
        self.assertEqual(3700.0, clock.now)
        for _ in range(10):
            rate.wait()
        self.assertAlmostEqual(3701.0, clock.now)
