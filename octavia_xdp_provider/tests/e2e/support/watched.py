# SPDX-License-Identifier: Apache-2.0
"""What tests ask of a Prometheus that scrapes their lab."""

import math
import re

import yaml

from octavia_xdp_provider.tests.e2e.support import prometheus
from octavia_xdp_provider.tests.support import dashboards

# Alerts that say something of the machine which runs the tests.
OF_THE_MACHINE = {'OctaviaXdpCheckerOverloaded', 'OctaviaXdpResultsLate'}


class Watched:
    """Beside a LabTestCase. ``SILENT``: what may be without an answer in its
    lab: panel, what its query has, and why."""

    SILENT = ()

    def start_prometheus(self, hypervisors=()):
        """``self.prometheus``, which scrapes all processes."""
        self.let_be = set()  # of SILENT
        self.prometheus = prometheus.Prometheus(self.lab, hypervisors)
        self.addCleanup(self.prometheus.stop)
        self.prometheus.start()
        # From before there is anything to count.
        self.seen('answers of all processes', self.all_answer)

    def all_answer(self):
        health = [one['health'] for one in self.prometheus.get(
            'targets')['activeTargets']]
        return health == ['up'] * self.prometheus.targets

    def seen(self, what, condition):
        return self.wait(what, condition, interval=0.5)

    def check_dashboard(self, name, dashboard, balancer):
        queries = dashboards.queries(dashboard)

        def missing():
            values = self.chosen(dashboard, balancer)
            return [(query.title, text) for query in queries
                    if not self.is_silent(query) and not self.has_answer(
                        text := dashboards.fill(query.text, values))]
        self.seen(lambda: f'answers of {name}: {missing()}',
                  lambda: not missing())
        values = self.chosen(dashboard, balancer)
        for one in queries:
            # Those without an answer can be asked all the same.
            self.prometheus.values(dashboards.fill(one.text, values))

    def is_silent(self, query):
        found = {one for one in self.SILENT
                 if one[0] == query.title and one[1] in query.text}
        self.let_be |= found
        return bool(found)

    def has_answer(self, query):
        """Whether anything that can be drawn comes back."""
        return any(not math.isnan(value)
                   for _, value in self.prometheus.values(query))

    def chosen(self, dashboard, balancer):
        """Name of a variable → what somebody may have chosen."""
        values = {'load_balancer': balancer.id,
                  'project': balancer.project_id}
        for one in dashboards.variables(dashboard):
            found = self.prometheus.label_values(
                one.label, dashboards.fill(one.series, values))
            if one.regex:
                found = [re.fullmatch(one.regex, text).group(1)
                         for text in found]
            self.assertNotEqual([], found, one)
            if one.name in values:
                self.assertIn(values[one.name], found)
            values.setdefault(one.name, found[0])
        return values

    def check_rules(self):
        """Each rule is evaluated, and none has anything to say."""
        written = [rule['alert'] for group in yaml.safe_load(
            dashboards.RULES.read_text())['groups']
            for rule in group['rules']]
        groups = self.prometheus.get('rules')['groups']
        rules = {rule['name']: rule for group in groups
                 for rule in group['rules']}
        self.assertEqual(sorted(written), sorted(rules))
        self.assertEqual({'ok'}, {one['health'] for one in rules.values()},
                         [one.get('lastError') for one in rules.values()])

        def disturbed():
            # What waits for its time counts as well.
            return [labels for labels, _ in self.prometheus.values('ALERTS')
                    if labels['alertname'] not in OF_THE_MACHINE]
        self.seen(lambda: f'calm: {disturbed()}', lambda: not disturbed())
