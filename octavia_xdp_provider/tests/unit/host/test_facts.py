# SPDX-License-Identifier: Apache-2.0
"""Reports of the datapath's counters, and their size."""

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.contracts.host_messages import COUNTERS_MAX
from octavia_xdp_provider.contracts.host_messages import LIMITED_PORTS_MAX
from octavia_xdp_provider.contracts.host_messages import PortCounters
from octavia_xdp_provider.host import facts
from octavia_xdp_provider.host import link
from octavia_xdp_provider.host import types
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.host import fakes

Outcome = enumerations.HostOutcome


class Datapath:

    def ports(self):
        return [types.PortState(fakes.PORT, 7, False, 1000, 4, 1)]

    def entries(self):
        return [types.EntryState(types.Entry(
            5, fakes.PORT, '203.0.113.10', 80, '10.0.0.5', 8080, 'tcp',
            fakes.MAC, fakes.GATEWAY_MAC), 1, 2, 3, 4, 5, 6)]

    def drops(self):
        return {(fakes.PORT, Outcome.DROP_NOT_ALLOWED): 6,
                (fakes.PORT, Outcome.FLOWS_FULL): 9}

    def outcomes(self):
        return {Outcome.PASS: 0, Outcome.FLOWS_FULL: 9,
                Outcome.DROP_NOT_ALLOWED: 6, Outcome.DROP_KEY: 2}


class TestFacts(base.TestCase):

    def test_counters_of_ports(self):
        counters = facts.read(Datapath()).counters()
        self.assertEqual({fakes.PORT: {
            'drops': {'drop_not_allowed': 6}, 'active': 4, 'entries': [{
                'key': 5, 'packets_in': 1, 'bytes_in': 2, 'packets_out': 3,
                'bytes_out': 4, 'flows': 5, 'drops': 6}]}}, counters)
        shape.Shape(PortCounters).check(counters[fakes.PORT])

    def test_drops_of_no_port(self):
        self.assertEqual({'drop_key': 2}, facts.read(Datapath()).unclaimed())

    def test_packets_at_a_limit_are_no_drops(self):
        found = facts.read(Datapath())
        self.assertEqual({fakes.PORT: {'flows_full': 9}}, found.limits)
        self.assertEqual(found.limits, found.most_limited())

    def test_report_names_the_ports_with_most_packets_at_a_limit(self):
        found = facts.Facts(limits={
            f'port{number}': {'flows_full': number, 'half_open_evicted': 1}
            for number in range(LIMITED_PORTS_MAX + 4)})
        self.assertEqual({f'port{number}' for number in range(
            4, LIMITED_PORTS_MAX + 4)}, found.most_limited().keys())

    def test_report_has_no_more_counters_than_it_may(self):
        counters = facts.read(Datapath()).counters()[fakes.PORT]
        of_ports = {
            str(number): {**counters, 'entries': counters['entries'] * 1000}
            for number in range(6)}
        reporter = reports.Reporter(1, link.HOSTS)
        known = reports.Facts(
            held={key: {'generation': 1, 'ifindex': None, 'error': None}
                  for key in of_ports}, counters=of_ports, state={})
        sent = {}
        while reporter.has_news(known):
            _epoch, seq, report = reporter.next(known)
            self.assertLessEqual(sum(len(port['entries']) for port in report[
                'counters'].values()), COUNTERS_MAX)
            sent.update(report['counters'])
            reporter.answered({'taken': True, 'epoch': 1, 'seq': seq})
        self.assertEqual(of_ports, sent)
