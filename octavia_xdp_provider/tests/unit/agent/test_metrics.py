# SPDX-License-Identifier: Apache-2.0
"""The agent's Prometheus metrics of its node."""

from unittest import mock

import prometheus_client

from octavia_xdp_provider.agent import metrics
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit.agent import reconciling


class Tables(reconciling.FakeDatapath):
    """Services with flows that are alive."""

    active = 5

    def services(self):
        return [service._replace(active=self.active)
                for service in super().services()]

    def info(self):
        return datapath.Info(1, 16, 64, 1, 1, len(self.held), 0, 1)


class TestCollector(reconciling.ReconcilerTestCase):

    def setUp(self):
        super().setUp()
        self.datapath = Tables(self.events)
        self.reconciler = self.make(self.conf)
        self.registry = prometheus_client.CollectorRegistry()
        self.announce.status = lambda: announcements.Status(
            frozenset(self.announce.wanted()), {'router': 'up'})
        self.registry.register(metrics.Collector(
            mock.Mock(
                datapath=self.datapath, announce=self.announce,
                uplinks=mock.Mock(ready=frozenset({4})),
                processes=mock.Mock(work=lambda: {'octavia-xdp-hc': False})),
            mock.Mock(wanted=None, answered_at=0.0),
            mock.Mock(result=None), self.reconciler.facts))

    def value(self, name, **labels):
        return self.registry.get_sample_value(
            f'octavia_xdp_agent_{name}', labels)

    def flows(self):
        return {protocol: self.value('active_flows', protocol=protocol)
                for protocol in ('tcp', 'udp', 'sctp')}

    def test_active_flows_follow_the_tables(self):
        self.assertEqual({'tcp': 0, 'udp': 0, 'sctp': 0}, self.flows())
        # Its members are checked: without one that is up no VIP is announced,
        # and flows of it are other nodes'.
        self.run_pass(self.document)
        self.assertEqual({'tcp': 0, 'udp': 0, 'sctp': 0}, self.flows())
        self.datapath.set_health(reconciling.KEY, True)
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({'tcp': 5, 'udp': 0, 'sctp': 0}, self.flows())
        self.datapath.active = 3
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({'tcp': 3, 'udp': 0, 'sctp': 0}, self.flows())

    def test_forwarded_traffic_covers_all_services(self):
        self.assertEqual(0, self.value('forwarded_packets_total'))
        self.run_pass(self.document)
        self.assertEqual((3, 1500, 1), tuple(self.value(name) for name in (
            'forwarded_packets_total', 'forwarded_bytes_total',
            'new_flows_total')))
        self.run_pass()
        self.assertEqual(3, self.value('forwarded_packets_total'))

    def test_uplinks_and_services_are_those_of_the_node(self):
        self.run_pass(self.document)
        self.assertEqual(1, self.value('services'))
        self.assertEqual((1, 0), tuple(
            self.value('uplinks_ready', version=version)
            for version in '46'))
