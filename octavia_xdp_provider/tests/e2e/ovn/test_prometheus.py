# SPDX-License-Identifier: Apache-2.0
"""Prometheus and its dashboards of hypervisors and their members."""

from lab.fabric import client
from lab.ovn import host_agents
from lab.ovn import hypervisors
from octavia_xdp_provider.tests.e2e.support import watched
from octavia_xdp_provider.tests.e2e.support import zero_touch
from octavia_xdp_provider.tests.support import dashboards

REQUESTS = 200
SHOWN = 'octavia-xdp-hypervisor.json', 'octavia-xdp-load-balancer.json'


class TestPrometheus(watched.Watched, zero_touch.ZeroTouchTestCase):

    def test_dashboards_show_hypervisors_and_no_alert_disturbs(self):
        self.start_prometheus(hypervisors.NAMES)
        balancer = self.balancer('red')
        answers = client.requests(self.lab, self.url(balancer), REQUESTS)
        self.assertEqual([], answers.failures)
        with self.closed('red', balancer):
            # What is dropped is drawn as well, of each hypervisor.
            for host in hypervisors.NAMES:
                self.wait(f'a drop on {host}', lambda host=host: (
                    self.is_dropped(balancer, host)))
        shipped = dashboards.load()
        for name in SHOWN:
            self.check_dashboard(name, shipped[name], balancer)
        # What an earlier test deleted may be leaving.
        self.wait('one port on each hypervisor', lambda: self.counted() == {
            (host, state): float(state == 'ready')
            for host in hypervisors.NAMES
            for state in ('ready', 'loading', 'failing')})
        self.check_rules()

    def is_dropped(self, balancer, host):
        """Whether a port's packets are; connections choose the host."""
        self.assertFalse(self.is_answered(balancer))
        return any(row['port'] for row in host_agents.show(
            self.lab, host, 'drops'))

    def counted(self):
        """What controllers say: (hypervisor, state) → ports."""
        return {(labels['host'], labels['state']): number
                for labels, number in self.prometheus.values(
                    'max by (host, state) '
                    '(octavia_xdp_controller_hypervisor_ports)')}
