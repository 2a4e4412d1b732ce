# SPDX-License-Identifier: Apache-2.0
"""Traffic of listeners, as the agent shows it to Prometheus."""

import types

import prometheus_client

from octavia_xdp_provider.agent import listener_metrics
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling

PREFIX = 'octavia_xdp_agent_listener_'
LABELS = {'project': 'p', 'load_balancer': 'lb', 'listener': 'listener',
          'vip': base.VIP}


class Tables(reconciling.FakeDatapath):
    """Services whose counters the test sets."""

    def __init__(self, events):
        super().__init__(events)
        self.counters = {}  # key → datapath.Counters
        self.looks = 0

    def services(self):
        return [service._replace(
            counters=self.counters.get(service.key, service.counters),
            drops=4, active=5, flow_table_full=2)
            for service in super().services()]

    def summaries(self):
        self.looks += 1
        return super().summaries()


class TestCollector(reconciling.ReconcilerTestCase):

    def setUp(self):
        super().setUp()
        self.datapath = Tables(self.events)
        self.reconciler = self.make(self.conf)
        self.link = types.SimpleNamespace(wanted=None)
        self.announce.status = lambda: announcements.Status(
            frozenset(self.announce.wanted()), {'router': 'up'})
        self.registry = prometheus_client.CollectorRegistry()
        self.registry.register(listener_metrics.Collector(
            self.conf, self.link, self.reconciler.facts))
        self.unmonitored()

    def take(self, *documents):
        """Apply documents as if the controller had sent them."""
        self.link.wanted = self.wanted(*documents)
        self.run_pass(*documents)

    def value(self, name, **labels):
        return self.registry.get_sample_value(
            PREFIX + name, {**LABELS, **labels})

    def samples(self):
        return [sample for family in self.registry.collect()
                for sample in family.samples]

    def test_listener_shows_the_counters_of_its_service(self):
        self.assertEqual([], self.samples())
        self.take(self.document)
        self.assertEqual(
            (3, 1500, 1, 4, 2, 5), tuple(self.value(name) for name in (
                'packets_total', 'bytes_total', 'flows_total', 'drops_total',
                'flow_table_full_total', 'active_flows')))
        self.assertEqual(6, len(self.samples()))

    def test_each_vip_has_series_of_its_own_that_never_fall(self):
        self.document['additional_vips'] = [
            {'ip_address': reconciling.VIP_V6}]
        self.take(self.document)
        self.datapath.counters[reconciling.KEY] = datapath.Counters(9, 900, 2)
        self.reconciler.announce(reconciling.BOTH)
        before = self.value('packets_total')
        self.assertEqual(3, self.value('packets_total',
                                       vip=reconciling.VIP_V6))
        self.document = dict(self.document, additional_vips=[])
        self.take(self.document)
        self.assertEqual((9, 9), (before, self.value('packets_total')))
        self.assertIsNone(self.value('packets_total',
                                     vip=reconciling.VIP_V6))

    def test_deleted_load_balancer_has_no_series(self):
        self.take(self.document)
        self.assertNotEqual([], self.samples())
        self.take()
        self.assertEqual([], self.samples())

    def test_scrape_does_not_read_the_tables(self):
        self.take(self.document)
        before = self.datapath.looks
        self.assertEqual(3, self.value('packets_total'))
        self.assertEqual(before, self.datapath.looks)

    def test_flows_are_alive_where_the_vip_is_announced(self):
        self.announce.status = lambda: None
        self.take(self.document)
        self.assertEqual((1, 0), (self.value('flows_total'),
                                  self.value('active_flows')))

    def test_document_without_a_project_has_an_empty_label(self):
        del self.document['project_id']
        self.take(self.document)
        self.assertEqual(3, self.value('packets_total', project=''))

    def test_operator_can_disable_listener_metrics(self):
        self.take(self.document)
        self.conf.set_override('load_balancer_metrics', False, 'agent')
        self.assertEqual([], self.samples())
