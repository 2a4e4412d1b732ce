# SPDX-License-Identifier: Apache-2.0
"""Octavia's metrics from HAProxy's statistics."""

import importlib.util
import pathlib
import re

from prometheus_client import parser

from octavia_xdp_provider.proxy.runtime import answers
from octavia_xdp_provider.proxy.runtime import exposition
from octavia_xdp_provider.proxy.runtime import metric_names
from octavia_xdp_provider.proxy.runtime import totals
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy.runtime import recorded

# Names of Octavia's that are left out, see metric_names.
_LEFT_OUT = re.compile(
    'octavia_memory_pool_.*|octavia_loadbalancer_(?!current_connections$|'
    'connections_total$|requests_total$).*|octavia_(pool|member)_(check_.*|'
    'downtime_seconds_total)|octavia_member_current_throttle')


class TestNames(base.TestCase):

    def test_names_are_octavias(self):
        # Its module is not imported: that changes what all tests see.
        octavia = importlib.util.find_spec('octavia')
        assert octavia and octavia.origin
        text = (pathlib.Path(octavia.origin).parent
                / 'cmd/prometheus_proxy.py').read_text()
        octavia_names = set(re.findall(r'\("(octavia_\w+) ', text))
        self.assertIn('octavia_listener_status', octavia_names)
        self.assertEqual(set(), set(metric_names.names()) - octavia_names)
        self.assertEqual(set(), {
            name for name in octavia_names - set(metric_names.names())
            if not _LEFT_OUT.fullmatch(name)})

    def test_counters_are_kept_over_processes(self):
        columns = {metric.column for metric in metric_names.METRICS
                   if metric.join is metric_names.COUNTER}
        self.assertEqual(set(), {*columns, *metric_names.RESPONSES.values()}
                         - set(totals.COLUMNS))


class TestText(base.TestCase):

    def samples(self, sums, *processes, down=()):
        text = exposition.render(processes, sums, down)
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples}

    def test_values_of_two_processes(self):
        rows = answers.parse_statistics(recorded.STATISTICS, 5)
        old = [{**rows[0], 'scur': '1', 'smax': '9', 'status': 'STOP'}]
        listener, pool = recorded.LISTENER, recorded.BACKEND
        first, second = recorded.MEMBERS
        samples = self.samples(
            {f'{listener}/FRONTEND': {'stot': 77, 'hrsp_2xx': 70},
             f'{pool}/{first}': {'bin': 5000}}, old, rows, down={first})
        for name, labels, value in (
                ('listener_current_sessions', (listener,), 3),
                ('listener_max_sessions', (listener,), 9),
                ('listener_sessions_total', (listener,), 77),
                ('listener_http_responses_total', (listener, '2xx'), 70),
                ('listener_http_responses_total', (listener, '5xx'), 0),
                ('listener_status', (listener, 'UP'), 1),
                ('pool_current_sessions', (pool,), 2),
                ('pool_response_time_average_seconds', (pool,), 0.03),
                ('pool_status', (pool, 'DOWN'), 0),
                ('member_bytes_in_total', (pool, first), 5000),
                ('member_status', (pool, first, 'DOWN'), 1),
                ('member_status', (pool, first, 'MAINT'), 0),
                ('member_status', (pool, second, 'UP'), 1),
                ('loadbalancer_current_connections', (), 3)):
            self.assertEqual(value, samples[
                (f'octavia_{name}', *labels)], name)
        self.assertNotIn('health', str(samples))
        # HAProxy has no such figure of a backend here.
        self.assertNotIn(('octavia_pool_weight', pool), samples)

    def test_nothing_runs(self):
        self.assertEqual({
            ('octavia_loadbalancer_current_connections',): 0,
            ('octavia_loadbalancer_connections_total',): 0,
            ('octavia_loadbalancer_requests_total',): 0}, self.samples({}))
