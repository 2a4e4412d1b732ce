# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of a hypervisor's agent and its datapath."""

import collections.abc
import typing

import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.host import facts as facts_module
from octavia_xdp_provider.host import link as agent_link
from octavia_xdp_provider.host import member_counters
from octavia_xdp_provider.host import watch as watch_module
from octavia_xdp_provider.process.agents import metrics

Families = collections.abc.Iterator[prometheus_client.Metric]

PREFIX = 'octavia_xdp_host_'
# Seconds that a pass takes.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

# Help texts for member_counters.COUNTERS.
_MEMBERS = {
    'packets_in': 'Packets to a member', 'bytes_in': 'Bytes to a member',
    'packets_out': 'Packets of a member', 'bytes_out': 'Bytes of a member',
    'flows': 'Flows to a member that began',
    'drops': 'Packets to or of a member that were dropped'}
# Without drops: those of ports are exported by outcome.
_PORTS = {
    'packets_in': 'Packets to members of a port',
    'bytes_in': 'Bytes to members of a port',
    'packets_out': 'Packets of members of a port',
    'bytes_out': 'Bytes of members of a port'}


class Metrics(metrics.Metrics):

    def __init__(self, registry: prometheus_client.CollectorRegistry
                 ) -> None:
        super().__init__(PREFIX, BUCKETS, registry)
        self._failures = prometheus_client.Counter(
            PREFIX + 'rpc_failures', 'Talks with the controller that failed',
            registry=registry)
        self._discarded = prometheus_client.Counter(
            PREFIX + 'discarded_flows', 'Flows of VMs that arrived which were '
            'not added, as too many messages waited', registry=registry)

    def discarded(self, flows: int) -> None:
        """Count flows of an arriving VM that were discarded."""
        self._discarded.inc(flows)

    def failed(self, kind: str) -> None:
        self._failures.inc()


class Collector(metrics.Collector):
    """Adds values of the worker and the watch.

    :param worker: worker.Worker.
    """

    prefix = PREFIX

    def __init__(self, link: agent_link.Link, worker: typing.Any,
                 watch: watch_module.Watch, carried: member_counters.Carried
                 ) -> None:
        super().__init__(link)
        self._worker = worker
        self._watch = watch
        self._carried = carried

    def collect(self) -> Families:
        yield from super().collect()
        held, facts = self._worker.held, self._worker.facts
        for name, text, value in (
                ('wanted', 'Ports and address sets that this hypervisor '
                 'shall have', len(held)),
                ('failed', 'Documents that cannot be applied, or have a tap '
                 'that cannot be served',
                 sum(entry['error'] is not None for entry in held.values())),
                ('taps', 'Ports that have a tap here', sum(
                    entry['ifindex'] is not None for entry in held.values())),
                ('open_vswitch_known', 'Whether Open vSwitch\'s database has '
                 'answered', float(self._watch.is_known)),
                ('ports', 'Ports in the datapath', len(facts.ports)),
                ('entries', 'Listeners at members in the datapath',
                 len(facts.entries)),
                ('flows', 'Confirmed flows', facts.flows)):
            yield self.gauge(name, text, value)
        yield from _packet_counters(facts)
        yield from _sums(
            self._carried.ports.update(facts.entries, facts.read_at), 'port',
            _PORTS, ['port'])
        yield from _sums(
            self._carried.members.update(facts.entries, facts.read_at),
            'member', _MEMBERS, ['load_balancer', 'member'])


def _sums(sums: typing.Any, kind: str, texts: dict[str, str],
          labels: list[str]) -> Families:
    for place, counter in enumerate(member_counters.COUNTERS):
        if counter not in texts:
            continue
        family = core.CounterMetricFamily(
            f'{PREFIX}{kind}_{counter}', texts[counter], labels=labels)
        for name, counts in sorted(sums.items()):
            family.add_metric(name, counts[place])
        yield family


def _packet_counters(facts: facts_module.Facts
                     ) -> Families:
    packets = core.CounterMetricFamily(
        PREFIX + 'packets', 'Packets by what happened to them',
        labels=['outcome'])
    for outcome, count in sorted(facts.outcomes.items()):
        packets.add_metric([outcome], count)
    yield packets
    for name, text, ports in (
            ('port_drops', 'Packets that were dropped, of a port',
             facts.drops),
            ('port_limits', 'Packets of a port at a limit, which were not '
             'dropped', facts.limits)):
        family = core.CounterMetricFamily(PREFIX + name, text,
                                          labels=['port', 'outcome'])
        for port, outcomes in sorted(ports.items()):
            for outcome, count in sorted(outcomes.items()):
                family.add_metric([port, outcome], count)
        yield family
