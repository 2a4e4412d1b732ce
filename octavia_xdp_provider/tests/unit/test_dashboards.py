# SPDX-License-Identifier: Apache-2.0
"""Grafana's dashboards: each can be imported, and asks for what there is.

That queries have answers is tested in a lab (tests/e2e/tenant).
"""

import collections
import itertools
import json
import pathlib
import re
import subprocess
import tempfile

from octavia_xdp_provider.tests.support import dashboards
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import exported

# Series that Prometheus makes itself.
PROMETHEUS = {'ALERTS'}
WORDS = {'and', 'or', 'unless', 'bool', 'offset'}
SCREEN_COLUMNS = 24


def metrics_of(query):
    """Names of series in a query; functions and labels are none."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"|`[^`]*`', ' ', query)
    text = re.sub(r'\{[^}]*\}|\[[^]]*\]', ' ', text)
    text = re.sub(r'\b(by|without|on|ignoring|group_left|group_right)\s*'
                  r'\([^)]*\)', ' ', text)
    return set(re.findall(r'\b[A-Za-z_:][\w:]*\b(?!\s*\()', text)) - WORDS


def selectors(dashboard):
    """All that it asks of Prometheus, with its variables filled in."""
    values = {variable['name']: 'value'
              for variable in dashboard['templating']['list']}
    return [dashboards.fill(text, values) for text in (
        *(query.text for query in dashboards.queries(dashboard)),
        *(variable.series for variable in dashboards.variables(dashboard)))]


def complaints(queries):
    """Return promtool's errors for queries, None if it parses them all."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, 'rules.json')
        path.write_text(json.dumps({'groups': [{
            'name': 'queries', 'rules': [
                {'record': f'q:{number}', 'expr': query}
                for number, query in enumerate(queries)]}]}))
        done = subprocess.run(['promtool', 'check', 'rules', str(path)],
                              capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else None


class TestDashboards(base.TestCase):

    def setUp(self):
        super().setUp()
        self.all = dashboards.load()

    def panels(self):
        for name, dashboard in self.all.items():
            for panel in dashboard['panels']:
                yield name, panel

    def test_each_subject_has_a_dashboard(self):
        self.assertEqual(['octavia-xdp-fleet', 'octavia-xdp-hypervisor',
                          'octavia-xdp-load-balancer', 'octavia-xdp-node'],
                         [dashboard['uid'] for dashboard in self.all.values()])
        for name, dashboard in self.all.items():
            self.assertEqual(name, dashboard['uid'] + '.json')
            self.assertLess(5, len(dashboards.queries(dashboard)))
        titles = {dashboard['title'] for dashboard in self.all.values()}
        self.assertEqual(len(self.all), len(titles))

    def test_panel_has_a_number_and_a_place_of_its_own(self):
        seen, cells = collections.Counter(), collections.Counter()
        for name, panel in self.panels():
            seen[name, panel['id']] += 1
            place = panel['gridPos']
            self.assertLessEqual(place['x'] + place['w'], SCREEN_COLUMNS,
                                 panel)
            cells.update((name, *cell) for cell in itertools.product(
                range(place['x'], place['x'] + place['w']),
                range(place['y'], place['y'] + place['h'])))
        self.assertEqual({1}, set(seen.values()))
        self.assertEqual({1}, set(cells.values()))

    def test_panels_use_the_chosen_data_source(self):
        source = {'type': 'prometheus', 'uid': '${datasource}'}
        for name, dashboard in self.all.items():
            first, *others = dashboard['templating']['list']
            self.assertEqual(
                ('datasource', 'datasource', 'prometheus'),
                (first['name'], first['type'], first['query']), name)
            self.assertEqual(
                [source] * len(others),
                [variable['datasource'] for variable in others], name)
        for name, panel in self.panels():
            if panel['type'] != 'row':
                self.assertEqual(source, panel['datasource'],
                                 (name, panel['title']))
            # It has no inputs of the Grafana that it was exported from.
            self.assertNotIn('__inputs', self.all[name])

    def test_queries_are_of_prometheus_language(self):
        self.assertIsNone(complaints(itertools.chain.from_iterable(
            map(selectors, self.all.values()))))

    def test_query_that_cannot_be_parsed_is_found(self):
        self.assertIn('parse error', complaints(['up', 'sum by (a rate(b)']))

    def test_queries_ask_for_what_processes_show(self):
        known = exported.names() | PROMETHEUS
        for name, dashboard in self.all.items():
            for query in selectors(dashboard):
                metrics = metrics_of(query)
                self.assertLess(0, len(metrics), query)
                self.assertEqual(set(), metrics - known, (name, query))

    def test_all_series_of_a_query_are_looked_for(self):
        self.assertEqual({'a_total', 'b:c', 'd', 'e'}, metrics_of(
            'topk(3, sum by (x, y) (rate(a_total{l="m{n}",o=~`p`}[5m]))) / '
            'on (host) group_left (z) b:c or d offset 5m > bool e{}'))

    def test_variable_that_is_not_declared_is_found(self):
        self.assertEqual('a{b="7.", d=~`7\\.`}[5m]', dashboards.fill(
            'a{b="${c}", d=~`${c:regex}`}[$__rate_interval]', {'c': '7.'}))
        self.assertRaises(KeyError, dashboards.fill, 'a{b="$c"}', {})

    def test_host_is_found_by_its_name_with_and_without_a_port(self):
        for name in 'node', 'hypervisor':
            dashboard = self.all[f'octavia-xdp-{name}.json']
            variable, = dashboards.variables(dashboard)
            self.assertEqual(name, variable.name)
            pattern = f'${{{name}:regex}}(:[0-9]+)?'
            for instance, host in (
                    ('lb1', 'lb1'),
                    ('lb1.example.org:9105', 'lb1.example.org'),
                    ('[2001:db8::1]:9105', '[2001:db8::1]')):
                self.assertEqual(
                    host, re.fullmatch(variable.regex, instance).group(1))
                matcher = dashboards.fill(pattern, {name: host})
                self.assertTrue(re.fullmatch(matcher, instance))
                self.assertFalse(re.fullmatch(matcher, 'x' + instance))
            for query in dashboards.queries(dashboard):
                self.assertIn(f'=~`{pattern}`', query.text)
