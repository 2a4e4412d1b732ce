# SPDX-License-Identifier: Apache-2.0
"""The controller's metrics for Prometheus.

Counters and the histogram are of this process. The other metrics are read from
the database at each scrape, and are the same in every controller.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import threading
import time

from oslo_config import cfg
from oslo_log import log as logging
import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.controller.octavia import limited
from octavia_xdp_provider.controller.store import figures as figures_module
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows

LOG = logging.getLogger(__name__)

PREFIX = 'octavia_xdp_controller_'
# Buckets of the time until all nodes have applied a change, in seconds.
BUCKETS = (0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Seconds that a scrape waits for an earlier one, as the database may be down.
_WAIT_S = 5
# Days within which the end of a certificate is counted; 0: it has ended.
EXPIRING_DAYS = (0, 7, 30)
_DAY_S = 24 * 3600.0
# Changes that are timed; more than are ever under way.
_TIMED_MAX = 10_000
# Key of messages.NodeState → name and help of its gauge.
_NODE_GAUGES = {
    'services': ('node_services', 'Services in the tables of an LB node'),
    'services_max': ('node_services_max', 'Services that an LB node has '
                                          'room for'),
    'members': ('node_members', 'Members in the tables of an LB node'),
    'members_max': ('node_members_max', 'Members that an LB node has room '
                                        'for'),
}


class Metrics:
    """Counters of one controller. Thread-safe."""

    def __init__(self, registry: prometheus_client.CollectorRegistry
                 ) -> None:
        self._lock = threading.Lock()
        self._since: dict[str, float] = {}  # load balancer id → accepted
        self._changes = prometheus_client.Counter(
            PREFIX + 'changes', 'Changes that drivers requested, by '
            'outcome', ['outcome'], registry=registry)
        self._calls = prometheus_client.Counter(
            PREFIX + 'node_calls', 'Calls of nodes', ['method'],
            registry=registry)
        self._delayed = prometheus_client.Counter(
            PREFIX + 'delayed_calls', 'Calls that waited because their node '
            'or hypervisor makes too many', ['host'], registry=registry)
        self._failures = prometheus_client.Counter(
            PREFIX + 'rpc_failures', 'Messages that could not be sent, or '
            'were refused because of their contents', ['kind'],
            registry=registry)
        for kind in ('wakeup', 'refused'):
            self._failures.labels(kind)
        self._seconds = prometheus_client.Histogram(
            PREFIX + 'change_seconds', 'Time from a change in the API '
            'until all its nodes have reported that they have applied it',
            buckets=BUCKETS, registry=registry)

        self._lookups = prometheus_client.Gauge(
            PREFIX + 'waiting_lookups', 'Members that the leader has yet to '
            'look up in Neutron because they are new or may have changed',
            registry=registry)
        self._lookup_age = prometheus_client.Gauge(
            PREFIX + 'waiting_lookups_seconds', 'Seconds for which the first '
            'of them has waited', registry=registry)

    def lookups_wait(self, number: int, seconds: float) -> None:
        """Set the number of waiting look-ups, and the age of the first."""
        self._lookups.set(number)
        self._lookup_age.set(seconds)

    def answered(self, outcome: str) -> None:
        """Count a change by its outcome, for example "accepted"."""
        self._changes.labels(outcome).inc()

    def called(self, method: str) -> None:
        """Count a node's call."""
        self._calls.labels(method).inc()

    def delayed(self, host: str) -> None:
        """Count a call of a node or hypervisor that had to wait."""
        self._delayed.labels(host).inc()

    def failed(self, kind: str) -> None:
        """Count a message that could not be sent or was refused."""
        self._failures.labels(kind).inc()

    def accepted(self, load_balancer_id: str) -> None:
        """Start timing an accepted change."""
        with self._lock:
            if len(self._since) >= _TIMED_MAX:
                self._since.clear()
            self._since[load_balancer_id] = time.monotonic()

    def done(self, load_balancer_id: str, is_news: bool) -> None:
        """End timing a change that all nodes have applied.

        :param is_news: False if another controller has already sent the
            statuses, so that the change is not timed.
        """
        with self._lock:
            since = self._since.pop(load_balancer_id, None)
        if since is not None and is_news:
            self._seconds.observe(time.monotonic() - since)


class Collector:
    """Reads the database at each scrape.

    :param store: queries.Store.
    :param leads: returns whether this controller leads.
    :param placement: the options of ``[placement]``.
    """

    def __init__(self, store: queries.Store, leads: Callable[[], bool],
                 placement: cfg.ConfigOpts.GroupAttr) -> None:
        self._placement = placement
        self._store = store
        self._leads = leads
        self._turn = threading.Lock()

    def describe(self) -> list[core.Metric]:
        """Do not read the database at registration."""
        return []

    def collect(self) -> Iterator[core.Metric]:
        """Called by Prometheus' registry."""
        yield _gauge('leader', 'Whether this controller leads',
                     float(self._leads()))
        yield _outgoing()
        if not self._turn.acquire(timeout=_WAIT_S):
            yield _gauge('database_up', 'Whether the database answered', 0)
            return
        try:
            figures = self._store.figures.count()
            in_one_zone = self._store.balance.in_one_zone(rows.wanted(
                self._placement))
            expiring = self._store.bundles.expiring(
                days * _DAY_S for days in EXPIRING_DAYS)
        except Exception as error:
            LOG.warning('Failed to read metrics from the database: %s', error)
            yield _gauge('database_up', 'Whether the database answered', 0)
            return
        finally:
            self._turn.release()
        yield _gauge('database_up', 'Whether the database answered', 1)
        yield from _all(figures)
        family = _family('load_balancers_in_one_zone', 'Load balancers that '
                         'want nodes in several zones, and all of whose '
                         'working nodes are in this one', 'zone')
        for zone, number in in_one_zone.items():
            family.add_metric([zone], number)
        yield family
        family = _family('load_balancers_expiring', 'Load balancers with a '
                         'certificate, or a list of revoked ones, that ends '
                         'within so many days or has ended', 'days')
        for days, number in zip(EXPIRING_DAYS, expiring, strict=True):
            family.add_metric([str(days)], number)
        yield family


def _outgoing() -> core.GaugeMetricFamily:
    family = _family('outgoing_calls', 'Calls of this controller to other '
                     'services', 'service', 'state')
    for service, states in sorted(limited.calls().items()):
        for state, number in states.items():
            family.add_metric([service, state], number)
    return family


def _all(figures: figures_module.Figures) -> Iterator[core.Metric]:
    yield _gauge('generation', 'The newest generation', figures.generation)
    yield _gauge('work_items', 'Load balancers in the work queue, including '
                 'those that are due later', figures.marked)
    yield _gauge('work_due', 'Load balancers in the work queue that are '
                 'due', figures.due)
    yield _gauge('work_due_seconds', 'Seconds for which the first of them has '
                 'been due', figures.due_s)
    balancers = _family('load_balancers', 'Load balancers', 'state')
    for state, number in figures.load_balancers.items():
        balancers.add_metric([state], number)
    yield balancers
    yield from _of_nodes(figures.nodes)
    yield from _of_hypervisors(figures.hypervisors)


def _of_nodes(nodes: Iterable[figures_module.NodeFigures]
              ) -> Iterator[core.Metric]:
    conditions = _family('node_condition', 'Condition of an LB node or a '
                         'proxy node: 1 for the one that it is in',
                         'host', 'role', 'condition')
    silence = _family('node_silence_seconds',
                      'Seconds since the last report of a node',
                      'host', 'role')
    lag = _family('node_lag_generations', 'Generations drawn since the '
                  'oldest one that a node has not applied', 'host', 'role')
    placements = _family('placements', 'Load balancers on a node', 'host',
                         'role', 'state')
    sessions = _family('node_bgp_sessions', 'BGP sessions of an LB node',
                       'host', 'state')
    gauges = {key: _family(name, text, 'host')
              for key, (name, text) in _NODE_GAUGES.items()}
    for node in nodes:
        labels = [node.host, node.role]
        conditions.add_metric([*labels, node.condition], 1)
        if node.silence_s is not None:
            silence.add_metric(labels, node.silence_s)
        lag.add_metric(labels, node.lag)
        for state in ('ok', 'behind', 'failing', 'draining', 'leaving'):
            placements.add_metric([*labels, state],
                                  node.placements.get(state, 0))
        for key, family in gauges.items():
            if isinstance(node.state.get(key), int):
                family.add_metric([node.host], node.state[key])
        established = node.state.get('bgp_established')
        # A malformed report of one node must not hide the others.
        if isinstance(established, list) and len(established) == 2:
            up, total = established
            sessions.add_metric([node.host, 'up'], up)
            sessions.add_metric([node.host, 'down'], total - up)
    yield from (conditions, silence, lag, placements, sessions,
                *gauges.values())


def _of_hypervisors(hypervisors: Iterable[figures_module.HypervisorFigures]
                    ) -> Iterator[core.Metric]:
    silence = _family('hypervisor_silence_seconds', 'Seconds since the '
                      'last call of the agent of a hypervisor', 'host')
    ports = _family('hypervisor_ports', 'Ports with members on a hypervisor '
                    'in service', 'host', 'state')
    for hypervisor in hypervisors:
        host = hypervisor.host
        if hypervisor.silence_s is not None:
            silence.add_metric([host], hypervisor.silence_s)
        for state in ('ready', 'loading', 'failing'):
            ports.add_metric([host, state], hypervisor.ports.get(state, 0))
    yield from (silence, ports)


def _gauge(name: str, text: str, value: float) -> core.GaugeMetricFamily:
    return core.GaugeMetricFamily(PREFIX + name, text, value=value)


def _family(name: str, text: str, *labels: str) -> core.GaugeMetricFamily:
    return core.GaugeMetricFamily(PREFIX + name, text, labels=labels)
