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
        health = [target['health'] for target in self.prometheus.get(
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
        for query in queries:
            # Those without an answer can be asked all the same.
            self.prometheus.values(dashboards.fill(query.text, values))

    def is_silent(self, query):
        matching = {silent for silent in self.SILENT
                    if silent[0] == query.title and silent[1] in query.text}
        self.let_be |= matching
        return bool(matching)

    def has_answer(self, query):
        """Whether anything that can be drawn comes back."""
        return any(not math.isnan(value)
                   for _, value in self.prometheus.values(query))

    def chosen(self, dashboard, balancer):
        """Name of a variable → what somebody may have chosen."""
        values = {'load_balancer': balancer.id,
                  'project': balancer.project_id}
        for variable in dashboards.variables(dashboard):
            labels = self.prometheus.label_values(
                variable.label, dashboards.fill(variable.series, values))
            if variable.regex:
                labels = [re.fullmatch(variable.regex, text).group(1)
                          for text in labels]
            self.assertNotEqual([], labels, variable)
            if variable.name in values:
                self.assertIn(values[variable.name], labels)
            values.setdefault(variable.name, labels[0])
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
        self.assertEqual({'ok'}, {rule['health'] for rule in rules.values()},
                         [rule.get('lastError') for rule in rules.values()])

        def disturbed():
            # What waits for its time counts as well.
            return [labels for labels, _ in self.prometheus.values('ALERTS')
                    if labels['alertname'] not in OF_THE_MACHINE]
        self.seen(lambda: f'calm: {disturbed()}', lambda: not disturbed())
