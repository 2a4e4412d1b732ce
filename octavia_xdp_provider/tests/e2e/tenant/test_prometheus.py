# SPDX-License-Identifier: Apache-2.0
"""Prometheus and its dashboards while a tenant's clients are served."""

from lab.fabric import client
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import watched
from octavia_xdp_provider.tests.support import dashboards

REQUESTS = 200
PACKETS = 'octavia_xdp_agent_listener_packets_total'

# Panels that may be empty here: the panel, a part of its query, and why.
SILENT = (
    ('Now: Alerts that fire', 'ALERTS{', 'none does'),
    ('Now: In one zone only', 'load_balancers_in_one_zone',
     'all nodes of the lab are in one zone'),
    ('Health results: Results that were lost', 'rejected_files_total',
     'no file was rejected: reasons are counted from the first on'),
    *((f'Members on hypervisors: {title}', 'octavia_xdp_host_member_',
       'the lab has no hypervisors')
      for title in ('Bits', 'New flows', 'Drops')))
# It has none of these: tests/e2e/ovn/test_prometheus.py looks at it.
OF_HYPERVISORS = 'octavia-xdp-hypervisor.json'


class TestPrometheus(watched.Watched, base.LabTestCase):

    SILENT = SILENT

    def test_dashboards_show_a_load_balancer_and_no_alert_disturbs(self):
        self.start_prometheus()
        balancer, listener, *_ = self.create_web()
        answers = client.requests(self.lab, self.url(balancer), REQUESTS)
        self.assertEqual([], answers.failures)
        self.seen('change that is timed', lambda: self.is_timed(balancer))
        self.check_packets(balancer, listener)
        shipped = dashboards.load()
        del shipped[OF_HYPERVISORS]
        for name, dashboard in shipped.items():
            self.check_dashboard(name, dashboard, balancer)
        self.assertEqual(set(SILENT), self.let_be)
        self.check_rules()
        series = f'{PACKETS}{{load_balancer="{balancer.id}"}}'
        self.delete_balancer(balancer)
        self.seen('end of its series',
                  lambda: not self.prometheus.values(series))

    def is_timed(self, balancer):
        """Whether a change has been since Prometheus looks, after another one:
        those are not of which one controller sees the beginning and another
        one the end."""
        self.sdk.update_load_balancer(balancer, name=self.unique('lb'))
        self.wait_active(balancer)
        return self.prometheus.values('sum(increase('
            'octavia_xdp_controller_change_seconds_count[5m])) > 0')

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
