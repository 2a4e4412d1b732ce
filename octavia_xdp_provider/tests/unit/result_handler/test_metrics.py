# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the result handler."""

import urllib.request

from octavia_xdp_provider.process import http_listener
from octavia_xdp_provider.result_handler import metrics
from octavia_xdp_provider.tests.unit import base


class TestMetrics(base.TestCase):

    def test_metrics_are_served_to_prometheus(self):
        figures = metrics.Metrics()
        figures.applied(3, 1, True)
        figures.took([0], 30_000_000)
        listener = http_listener.Listener(
            ('127.0.0.1', 0), http_listener.application(figures.registry))
        listener.start()
        self.addCleanup(listener.stop)
        url = f'http://127.0.0.1:{listener.port}/metrics'
        with urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
        prefix = 'octavia_xdp_result_handler_'
        self.assertIn(f'{prefix}results_total 3.0\n', text)
        self.assertIn(f'{prefix}latency_seconds_bucket{{le="0.03"}} 1.0\n',
                      text)
        self.assertIn(f'{prefix}latency_seconds_bucket{{le="0.02"}} 0.0\n',
                      text)
