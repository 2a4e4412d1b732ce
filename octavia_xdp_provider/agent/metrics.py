# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the agent and its node."""

import time

from oslo_log import log as logging
import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process import pass_metrics

LOG = logging.getLogger(__name__)

PREFIX = 'octavia_xdp_agent_'
# Bounds of the histogram of passes, in seconds.
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics(pass_metrics.PassMetrics):

    def __init__(self, registry):
        super().__init__(PREFIX, BUCKETS, registry)
        self._failures = prometheus_client.Counter(
            PREFIX + 'rpc_failures', 'Talks with the controller, and '
            'heartbeats, that failed', ['kind'], registry=registry)
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
        for kind in ('link', 'heartbeat'):
            self._failures.labels(kind)
        for state in ('up', 'down', 'unknown'):
            self._transitions.labels(state)

    def failed(self, kind):
        """Count a failed call of the controller."""
        self._failures.labels(kind).inc()

    def announced_without_peers(self):
        """See peers_wait.PeersWait."""
        self._without_peers.inc()

    def without_history(self):
        """See history.History."""
        self._without_history.inc()

    def held(self, before, now):
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


class Collector:
    """Collects metrics when Prometheus scrapes.

    :param link: link.Link.
    :param worker: worker.Worker.
    :param uplinks: uplinks.monitor.UplinkMonitor.
    :param announce: bgp.announcements.Announcements.
    :param other_processes: processes.Processes.
    """

    def __init__(self, dataplane, link, worker, uplinks, announce,
                 other_processes):
        self._datapath = dataplane
        self._link = link
        self._worker = worker
        self._uplinks = uplinks
        self._announce = announce
        self._processes = other_processes

    def describe(self):
        """Return nothing, so that registering collects nothing."""
        return []

    def collect(self):
        """Called by Prometheus' registry."""
        yield _gauge('controller_silence_seconds', 'Since a controller has '
                     'answered', time.monotonic() - self._link.answered_at)
        yield from self._collect_load_balancers()
        yield from self._collect_maps()
        flows = _family('active_flows', 'Flows of announced VIPs that are '
                        'alive, counted or estimated', 'protocol')
        for protocol, number in self._worker.active_flows().items():
            flows.add_metric([protocol.lower()], number)
        yield flows
        total = self._worker.total()
        for name, text, value in (
                ('forwarded_packets', 'Packets that were forwarded to '
                 'members', total.packets),
                ('forwarded_bytes', 'Bytes of these packets as clients sent '
                 'them, from the IP header on', total.bytes),
                ('new_flows', 'Flows that began, of services that see '
                 'where they do', total.flows)):
            yield core.CounterMetricFamily(PREFIX + name, text, value=value)
        yield from self._collect_announcements()
        ready = _family('uplinks_ready', 'Whether packets of an IP version '
                        'leave by some uplink', 'version')
        for version in (4, 6):
            ready.add_metric([str(version)],
                             float(version in self._uplinks.ready))
        yield ready
        process_up = _family('process_up', 'Whether another process of the '
                             'node does what it is there for', 'process')
        for name, works in self._processes.work().items():
            process_up.add_metric([name], float(works))
        yield process_up

    def _collect_load_balancers(self):
        wanted, result = self._link.wanted, self._worker.result
        yield _gauge('load_balancers', 'Load balancers that this node shall '
                     'have', len(wanted.documents) if wanted else 0)
        yield _gauge('draining', 'Those that it announces as a last resort',
                     len(wanted.draining) if wanted else 0)
        yield _gauge('failed_load_balancers',
                     'Load balancers that it cannot apply',
                     len(result.failed) if result else 0)
        fetched = wanted.as_of if wanted else 0
        done = result.wanted.as_of if result else 0
        if self._worker.has_made_true(wanted):
            done = fetched
        yield _gauge('fetched_generation', 'As of which generation this node '
                     'has fetched', fetched)
        yield _gauge('done_generation', 'As of which generation it has made '
                     'true what it fetched', done)

    def _collect_maps(self):
        try:
            info = self._datapath.info()
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
            yield _gauge(name, text, value)

    def _collect_announcements(self):
        status = self._announce.status()
        yield _gauge('announcer_up', 'Whether the announcer below ExaBGP '
                     'runs', float(status is not None))
        announced = _family('announcements', 'Prefixes by what became of '
                            'them', 'state')
        wanted = self._announce.wanted()
        taken = status.announced if status else frozenset()
        failed = status.failed.keys() if status else set()
        announced.add_metric(['announced'], len(taken))
        announced.add_metric(['failed'], len(failed & wanted.keys()))
        announced.add_metric(['waiting'], len(
            wanted.keys() - taken - failed))
        yield announced
        sessions = _family('bgp_session_up', 'Whether a BGP session is '
                           'established', 'neighbour')
        for neighbour, state in sorted(
                (status.neighbours if status else {}).items()):
            sessions.add_metric([neighbour], float(state == 'up'))
        yield sessions


def _gauge(name, text, value):
    return core.GaugeMetricFamily(PREFIX + name, text, value=value)


def _family(name, text, *labels):
    return core.GaugeMetricFamily(PREFIX + name, text, labels=labels)
