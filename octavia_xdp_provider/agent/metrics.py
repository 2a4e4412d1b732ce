# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the agent and its node."""

from collections.abc import Iterator

from oslo_log import log as logging
import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.agent import facts as agent_facts
from octavia_xdp_provider.agent import parts as agent_parts
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import link as agent_link
from octavia_xdp_provider.process.agents import metrics
from octavia_xdp_provider.process.agents import worker as agent_worker

LOG = logging.getLogger(__name__)

PREFIX = 'octavia_xdp_agent_'

Families = Iterator[prometheus_client.Metric]


class Metrics(metrics.NodeMetrics):

    def __init__(self, registry: prometheus_client.CollectorRegistry
                 ) -> None:
        super().__init__(PREFIX, registry)
        self._transitions = prometheus_client.Counter(
            PREFIX + 'health_transitions', 'Members whose health has changed '
            'in the tables', ['to'], registry=registry)
        self._without_peers = prometheus_client.Counter(
            PREFIX + 'announced_without_peers', 'How often VIPs of NAT were '
            'announced before it was known which nodes may have their '
            'connections', registry=registry)
        self._without_history = prometheus_client.Counter(
            PREFIX + 'without_history', 'How often a node without state, or '
            'a service of it, went on without the earlier owners of its '
            'slots, because it forwarded packets before they were known',
            registry=registry)
        for state in ('up', 'down', 'unknown'):
            self._transitions.labels(state)

    def announced_without_peers(self) -> None:
        """See peers_wait.PeersWait."""
        self._without_peers.inc()

    def without_history(self) -> None:
        """See history.History."""
        self._without_history.inc()

    def held(self, before: dict[str, messages.Held] | None,
             now: dict[str, messages.Held]) -> None:
        """Count changed states of members in two id → messages.Held."""
        if before is None:
            return
        for key, new in now.items():
            old = before.get(key)
            if old is new or old is None:
                continue
            for member, state in new['members'].items():
                if old['members'].get(member, state) != state:
                    self._transitions.labels(state).inc()


class Collector(metrics.Collector):
    """Adds values of the agent's parts and of the node."""

    prefix = PREFIX

    def __init__(self, parts: agent_parts.Parts, link: agent_link.Link,
                 worker: agent_worker.Worker, facts: agent_facts.Facts
                 ) -> None:
        super().__init__(link)
        self._parts = parts
        self._worker = worker
        self._facts = facts

    def collect(self) -> Families:
        yield from super().collect()
        yield from self._collect_load_balancers()
        yield from self._collect_maps()
        yield self.gauges(
            'active_flows', 'Flows of announced VIPs that are alive, counted '
            'or estimated', 'protocol',
            {protocol.lower(): number for protocol, number
             in self._facts.active_flows().items()})
        total = self._facts.total()
        for name, text, value in (
                ('forwarded_packets', 'Packets that were forwarded to '
                 'members', total.packets),
                ('forwarded_bytes', 'Bytes of these packets as clients sent '
                 'them, from the IP header on', total.bytes),
                ('new_flows', 'Flows that began, of services that see '
                 'where they do', total.flows)):
            yield core.CounterMetricFamily(PREFIX + name, text, value=value)
        yield from self._collect_announcements()
        ready = self._parts.uplinks.ready
        yield self.gauges(
            'uplinks_ready', 'Whether packets of an IP version leave by some '
            'uplink', 'version',
            {str(version): float(version in ready) for version in (4, 6)})
        yield self.gauges(
            'process_up', 'Whether another process of the node does what it '
            'is there for', 'process',
            self._parts.processes.work())

    def _collect_load_balancers(self) -> Families:
        wanted, result = self._link.wanted, self._worker.result
        yield self.gauge('load_balancers', 'Load balancers that this node '
                         'shall have', len(wanted.documents) if wanted else 0)
        yield self.gauge('draining', 'Those that it announces as a last '
                         'resort', len(wanted.draining) if wanted else 0)
        yield self.gauge('failed_load_balancers', 'Load balancers that it '
                         'cannot apply', len(result.failed) if result else 0)
        fetched = wanted.as_of if wanted else 0
        done = result.wanted.as_of if result else 0
        if self._worker.has_applied(wanted):
            done = fetched
        yield self.gauge('fetched_generation', 'As of which generation this '
                         'node has fetched', fetched)
        yield self.gauge('done_generation', 'As of which generation it has '
                         'applied what it fetched', done)

    def _collect_maps(self) -> Families:
        try:
            info = self._parts.datapath.info()
        except datapath.DatapathError as error:
            LOG.warning('The tables cannot be read for metrics: %s',
                        error.text)
            return
        for name, text, value in (
                ('services', 'Services in the tables', info.services),
                ('services_max', 'Services that there is room for',
                 info.services_max),
                ('members', 'Members in the tables', info.members),
                ('members_max', 'Members that there is room for',
                 info.members_max),
                ('map_bytes', 'Memory of the tables', info.map_bytes)):
            yield self.gauge(name, text, value)

    def _collect_announcements(self) -> Families:
        status = self._parts.announce.status()
        yield self.gauge('announcer_up', 'Whether the announcer below ExaBGP '
                         'runs', float(status is not None))
        wanted = self._parts.announce.wanted().keys()
        taken = status.announced if status else frozenset()
        failed = status.failed.keys() if status else set()
        yield self.gauges(
            'announcements', 'Prefixes by what became of them', 'state',
            {'announced': len(taken), 'failed': len(failed & wanted),
             'waiting': len(wanted - taken - failed)})
        neighbours = status.neighbours if status else {}
        yield self.gauges(
            'bgp_session_up', 'Whether a BGP session is established',
            'neighbour', {neighbour: float(state == 'up') for neighbour, state
                          in sorted(neighbours.items())})
