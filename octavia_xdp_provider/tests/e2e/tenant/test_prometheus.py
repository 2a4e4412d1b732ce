# SPDX-License-Identifier: Apache-2.0
"""Prometheus and its dashboards while a tenant's clients are served."""

import math
import re

import yaml

from lab.control import octavia
from lab.fabric import client
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import prometheus
from octavia_xdp_provider.tests.support import dashboards

REQUESTS = 200
# Seconds until Prometheus has seen what has just happened.
SEEN_S = 30
PACKETS = 'octavia_xdp_agent_listener_packets_total'

# What may be without an answer here: panel, what its query has, and why.
SILENT = (
    ('Now: Alerts that fire', 'ALERTS{', 'none does'),
    ('Health results: Results that were lost', 'rejected_files_total',
     'no file was rejected: reasons are counted from the first on'),
    *((f'Members on hypervisors: {title}', 'octavia_xdp_host_member_',
       'the lab has no hypervisors')
      for title in ('Bits', 'New flows', 'Drops')))
# Alerts that say something of the machine which runs the tests.
OF_THE_MACHINE = {'OctaviaXdpCheckerOverloaded', 'OctaviaXdpResultsLate'}


class TestPrometheus(base.LabTestCase):

    def setUp(self):
        super().setUp()
        self.let_be = set()  # of SILENT
        self.prometheus = prometheus.Prometheus(self.lab)
        self.addCleanup(self.prometheus.stop)
        self.prometheus.start()

    def seen(self, what, condition):
        return self.wait(what, condition, SEEN_S, 0.5)

    def test_dashboards_show_a_load_balancer_and_no_alert_disturbs(self):
        # From before there is anything to count.
        self.seen('answers of all processes', self.all_answer)
        balancer, listener, *_ = self.create_web()
        answers = client.requests(self.lab, self.url(balancer), REQUESTS)
        self.assertEqual([], answers.failures)
        self.seen('change that is timed', lambda: self.is_timed(balancer))
        self.check_packets(balancer, listener)
        for name, dashboard in dashboards.load().items():
            self.check_dashboard(name, dashboard, balancer)
        self.assertEqual(set(SILENT), self.let_be)
        self.check_rules()
        series = f'{PACKETS}{{load_balancer="{balancer.id}"}}'
        self.delete_balancer(balancer)
        self.seen('end of its series',
                  lambda: not self.prometheus.values(series))

    def is_timed(self, balancer):
        """Whether a change has been, after another one: those are not of
        which one controller sees the beginning and another one the end."""
        self.sdk.update_load_balancer(balancer, name=self.unique('lb'))
        self.wait_active(balancer)
        return self.prometheus.values(
            'sum(octavia_xdp_controller_change_seconds_count) > 0')

    def all_answer(self):
        """Whether Prometheus scrapes each process of the lab."""
        health = [one['health'] for one in self.prometheus.get(
            'targets')['activeTargets']]
        return health == ['up'] * (
            len(octavia.METRICS_PORTS)
            + len(nodes.METRICS_PORTS) * len(topology.NODES))

    def check_packets(self, balancer, listener):
        """Prometheus has just what the tables say."""
        counted = 0
        for node in topology.NODES:
            with self.datapath(node) as opened:
                counted += opened.service(
                    self.key(balancer)).counters.packets
        self.assertLess(REQUESTS, counted)
        labels = {'load_balancer': balancer.id, 'listener': listener.id,
                  'project': balancer.project_id,
                  'vip': balancer.vip_address}
        selector = ', '.join(f'{key}="{value}"'
                             for key, value in labels.items())
        # Connections may still be ending.
        self.seen(f'{counted} packets or more', lambda: (
            self.prometheus.values(
                f'sum({PACKETS}{{{selector}}}) >= {counted}')))

    def check_dashboard(self, name, dashboard, balancer):
        queries = dashboards.queries(dashboard)
        missing = []

        def has_all():
            values = self.chosen(dashboard, balancer)
            missing[:] = [
                (one.title, text) for one in queries
                if not self.is_silent(one) and not self.has_answer(
                    text := dashboards.fill(one.text, values))]
            return not missing
        try:
            self.seen('answers', has_all)
        except Exception as error:
            self.fail(f'{name}: {error}: {missing}')
        values = self.chosen(dashboard, balancer)
        for one in queries:
            # Those without an answer can be asked all the same.
            self.prometheus.values(dashboards.fill(one.text, values))

    def is_silent(self, query):
        found = {one for one in SILENT
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
        disturbed = []

        def is_calm():
            # What waits for its time counts as well.
            disturbed[:] = [
                labels for labels, _ in self.prometheus.values('ALERTS')
                if labels['alertname'] not in OF_THE_MACHINE]
            return not disturbed
        try:
            self.seen('calm', is_calm)
        except Exception as error:
            self.fail(f'{error}: {disturbed}')
