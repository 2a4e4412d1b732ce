# SPDX-License-Identifier: Apache-2.0
"""Calls that a node's server accepts; a functional test covers the broker."""

import threading

import fixtures
import oslo_messaging
import prometheus_client

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller import bounded_calls
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.controller import node_servers
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import clocks


class Endpoint:
    target = oslo_messaging.Target(namespace='nodes', version='1.0')

    def __init__(self):
        self.calls = []

    def report(self, context, host):
        raise errors.Refused('report.held', 'is no object', 'send one')

    def fetch(self, context, host, since):
        self.calls.append((host, since))
        return since

    def _secret(self, context, host):
        self.calls.append(('secret', host))


class TestBoundEndpoint(base.TestCase):

    def setUp(self):
        super().setUp()
        self.endpoint = Endpoint()
        self.registry = prometheus_client.CollectorRegistry()
        self.clock = clocks.Clock()
        self.bound = node_servers.BoundEndpoint(
            'lb1', self.endpoint, bounded_calls.Complaints(self.clock),
            metrics.Metrics(self.registry))

    def refusal(self, method, **arguments):
        """Return the error that the caller gets, which the server expects."""
        expected = self.assertRaises(oslo_messaging.ExpectedException,
                                     method, {}, **arguments)
        kind, error, _ = expected.exc_info
        self.assertIs(errors.Refused, kind)
        return str(error)

    def test_node_calls_for_itself(self):
        self.assertEqual(7, self.bound.fetch({}, host='lb1', since=7))
        self.assertEqual([('lb1', 7)], self.endpoint.calls)
        self.assertIs(Endpoint.target, self.bound.target)

    def test_call_in_another_nodes_name_has_no_effect(self):
        for host in ('lb2', 'LB1', '', None, ['lb1'], {'lb1': 1}):
            self.assertIn('lb1', self.refusal(self.bound.fetch, host=host,
                                              since=7))
        self.refusal(self.bound.fetch, since=7)
        self.assertEqual([], self.endpoint.calls)

    def test_malformed_calls_are_logged_at_intervals(self):
        log = self.useFixture(fixtures.FakeLogger())
        for _ in range(5):
            self.assertIn('report.held',
                          self.refusal(self.bound.report, host='lb1'))
        self.assertEqual(1, len(log.output.splitlines()), log.output)
        self.assertIn('lb1: its report is refused', log.output)
        self.clock.now += bounded_calls.COMPLAINT_S
        self.refusal(self.bound.report, host='lb1')
        self.assertEqual(2, len(log.output.splitlines()), log.output)
        self.assertEqual(6, self.registry.get_sample_value(
            'octavia_xdp_controller_rpc_failures_total',
            {'kind': 'refused'}))

    def test_private_methods_cannot_be_called(self):
        self.assertFalse(hasattr(self.bound, '_secret'))


class TestNodeServers(base.TestCase):

    def test_server_of_a_node_is_restarted_if_it_ends(self):
        """The node stays registered, so nothing else would restart it."""
        conf = self.load('[nodes]\ntransport_url = fake:///{vhost}\n')
        clock = clocks.Clock()
        self.useFixture(fixtures.MockPatchObject(
            node_servers.time, 'monotonic', clock))
        attempted, fails = threading.Semaphore(0), [True]
        transport = node_servers.rpc.transport

        def attempt(*arguments, **options):
            attempted.release()
            if fails:
                raise ValueError('what nobody has thought of')
            return transport(*arguments, **options)

        self.useFixture(fixtures.MockPatchObject(
            node_servers.rpc, 'transport', attempt))
        servers = node_servers.NodeServers(
            conf, lambda: ['lb1'], {'topic': [Endpoint()]})
        self.addCleanup(servers.ensure, ())
        servers.ensure(['lb1'])
        self.assertTrue(attempted.acquire(timeout=60))
        ended, = servers.threads()
        ended.join(60)
        servers.ensure(['lb1'])
        self.assertFalse(attempted.acquire(blocking=False))
        fails.clear()
        clock.now += node_servers.RETRY_S
        servers.ensure(['lb1'])
        self.assertTrue(attempted.acquire(timeout=60))
        clock.now += node_servers.RETRY_S
        served = servers.threads()
        servers.ensure(['lb1'])
        self.assertEqual(served, servers.threads())
