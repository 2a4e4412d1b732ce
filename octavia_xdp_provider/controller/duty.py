# SPDX-License-Identifier: Apache-2.0
"""The leader's duties: work of one controller for all, under a lease.

The leader judges which nodes are alive, marks the load balancers that this
concerns, spreads them over zones and evens out the load. All of this is quick:
resync.py and statistics.py, which call Octavia, have their own threads.

Each controller observes the nodes' heartbeats, so that a new leader knows
since when they could have arrived.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import time

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.controller.scheduler import balancing
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import liveness
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.process import loops

LOG = logging.getLogger(__name__)

LEASE = 'duty'
# Seconds between two checks of the nodes.
INTERVAL_S = 1.0
# Seconds between two searches for load balancers on too few nodes, and how
# many of them a search marks.
_SHORT_S = 10.0
_SHORT_MAX = 100
# Seconds between two searches for moves that spread load balancers over zones,
# and between two that even out the load.
_REBALANCE_S = 2.0
# Node time-outs for which a controller that has just started waits for a first
# heartbeat: agents reconnect to the broker after up to half a minute.
_PATIENCE = 4
# Conditions that depend on heartbeats only.
_BY_HEARTBEATS = frozenset(condition.value for condition in (
    clusters.Condition.LIVE, clusters.Condition.SILENT,
    clusters.Condition.DEAD))


class Leadership:
    """This process's view of the lease. Thread-safe."""

    def __init__(self, store: queries.Store, owner: str, lease_s: float
                 ) -> None:
        self._store = store
        self._owner = owner
        self._lease_s = lease_s
        self._token: int | None = None
        self._until = 0.0

    def renew(self) -> None:
        """Take or renew the lease."""
        before = time.monotonic()
        token = self._store.leases.acquire(LEASE, self._owner, self._lease_s)
        if token is not None and token != self._token:
            LOG.info('This controller is the leader, with token %s.', token)
        elif token is None and self._token is not None:
            LOG.info('This controller is no longer the leader.')
        self._token, self._until = token, before + self._lease_s

    def token(self) -> int | None:
        """Return the token, or None if another controller leads or may."""
        return self._token if time.monotonic() < self._until else None

    def resign(self) -> None:
        self._token = None
        self._store.leases.resign(LEASE, self._owner)


class Duty(loops.Loop):
    """Runs until ``stop`` is called. Woken when a node is new."""

    def __init__(self, conf: cfg.ConfigOpts, store: queries.Store,
                 leadership: Leadership, scheduler: service.Scheduler,
                 notify: Callable[[Iterable[str]], object],
                 changed: Callable[[], object],
                 come_round: Callable[[], None] = lambda: None) -> None:
        """:param notify: called with hosts that are to fetch.

        :param changed: called when load balancers were marked.
        :param come_round: see Loops.watch.
        """
        super().__init__(
            self.step, INTERVAL_S, 'The leader\'s duties failed; trying '
            'again.', come_round, leases.LeaseLost)
        self._conf = conf.placement
        self._store = store
        self._leadership = leadership
        self._balancing = balancing.Balancing(scheduler)
        self._notify = notify
        self._changed = changed
        self._liveness = liveness.Liveness(
            self._conf.node_timeout / 2,
            _PATIENCE * self._conf.node_timeout)
        # method → time
        self._due: dict[Callable[[], None], float] = {}

    def run(self) -> None:
        super().run()
        try:
            self._leadership.resign()
        except Exception:
            LOG.exception('Failed to release the lease, which will expire.')

    def step(self) -> None:
        self._leadership.renew()
        now, nodes = self._store.nodes.heard()
        self._liveness.observe(now, [last_seen for last_seen, *_
                                     in nodes.values()])
        token = self._leadership.token()
        if token is None:
            return
        self._judge(now, nodes, token)
        if self._is_due(self._mark_short, _SHORT_S):
            self._mark_short()
        if self._is_due(self._mend, _REBALANCE_S):
            self._mend()
        if self._is_due(self._rebalance, _REBALANCE_S):
            self._rebalance()

    def _is_due(self, method: Callable[[], None], interval_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(method, 0.0):
            return False
        self._due[method] = now + interval_s
        return True

    def _judge(self, now: float,
               nodes: Mapping[str, tuple[float, bool, bool, str | None]],
               token: int) -> None:
        """Store conditions that have changed."""
        dead_s = max(self._conf.node_timeout, self._conf.replace_after)
        changed = {}
        for host, (last_seen, in_service, draining,
                   before) in nodes.items():
            if (self._liveness.awaits_first_report and in_service
                    and before in _BY_HEARTBEATS):
                continue
            # A node that has never reported is dead without any wait.
            silence_s = (self._liveness.silence_s(now, last_seen)
                         if last_seen else now)
            condition = clusters.condition(
                silence_s, in_service, self._conf.node_timeout, dead_s,
                draining).value
            if condition != before:
                changed[host] = condition
                LOG.info('Node %s is %s, was %s.', host, condition,
                         before or 'unknown')
        if not changed:
            return
        self._store.nodes.set_conditions(changed, LEASE, token)
        if clusters.Condition.LIVE.value in changed.values():
            # It can take load balancers with too few nodes.
            self._due.clear()
        self._changed()

    def _mark_short(self) -> None:
        zones = self._store.nodes.zones()
        for role in rows.ROLES:
            live = [zones.get(host, '') for host, condition
                    in self._store.nodes.conditions(role).items()
                    if condition == clusters.Condition.LIVE.value]
            if live and self._store.balance.mark_short(
                    rows.wanted(self._conf), len(live), len(set(live)),
                    _SHORT_MAX, role):
                self._changed()

    def _mend(self) -> None:
        begun = self._balancing.mend()
        if begun:
            self._store.work.mark([key for key, _ in begun])
            self._notify([host for _, host in begun])
            self._changed()

    def _rebalance(self) -> None:
        waiting, _ = self._store.work.waiting()
        if waiting > _SHORT_MAX:
            return  # There is more urgent work.
        moved = self._balancing.rebalance()
        if moved is not None:
            key, host = moved
            self._store.work.mark([key])
            self._notify([host])
            self._changed()
