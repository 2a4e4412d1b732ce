# SPDX-License-Identifier: Apache-2.0
"""Advances one load balancer as far as possible without waiting.

The rows tell what to do: promote or drop a pending change, place the load
balancer, notify its nodes, send statuses to Octavia, finish a deletion. No
state is kept in memory: any controller that takes the item next continues.

Octavia calls the driver inside an open transaction. Nothing of a change is
sent to Octavia or to nodes before that transaction is committed
(committed.py). Octavia admits no further change until the load balancer is
ACTIVE again, so statuses of one generation never mix with the next one.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Set
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.api import connections
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import committed
from octavia_xdp_provider.controller import comparison
from octavia_xdp_provider.controller import progress as progresses
from octavia_xdp_provider.controller import proxies
from octavia_xdp_provider.controller import status_updates
from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import requests
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.controller.store import situations
from octavia_xdp_provider.controller.store import work
from octavia_xdp_provider.process import ages

LOG = logging.getLogger(__name__)

# First and longest interval between checks of a pending change, in seconds.
_COMMIT_FIRST_S = 0.03
_COMMIT_MAX_S = 5.0
# Checks of a change whose deadline is impossibly far away (most of a minute).
_COMMIT_CHECKS_MAX = 12
# Seconds until removals beyond the budget are tried again.
_BUDGET_S = 30.0
# Part of the time-out of statuses for which a proxy node that has not applied
# a change gets new connections.
_PATIENCE = 0.5
# Seconds until a deletion is tried again after too many others were waiting.
_CROWDED_S = 2.0


class Advance:
    """Thread-safe, with one thread at a time for each load balancer."""

    def __init__(self, conf: cfg.ConfigOpts, store: queries.Store,
                 octavia: client.Octavia, scheduler: service.Scheduler,
                 notify: Callable[[Set[str]], object],
                 done: Callable[[str, bool], object] = lambda key, news: None,
                 expect: Callable[[str, int, Set[str]], object] = (
                     lambda key, generation, hosts: None),
                 waiting: workers.Waiting | None = None) -> None:
        """:param notify: called with hosts that are to fetch.

        :param expect: called before ``notify`` with a load balancer, its
            generation and hosts that will report on it.
        :param done: called with a load balancer that all its nodes have
            applied, and whether Octavia still waits for a status.
        :param waiting: workers.Waiting, for deletions, which take
            octavia-driver-agent long.
        """
        self._waiting = waiting or workers.Waiting()
        self._done = done
        self._expect = expect
        self._conf = conf.controller
        self._store = store
        self._octavia = octavia
        self._scheduler = scheduler
        self._notify = notify
        self._comparison = comparison.Comparison(store, octavia)
        self._updates = status_updates.StatusUpdates(store, octavia)

    def step(self, item: work.Item, is_claimed: Callable[[], bool]
             ) -> workers.Again:
        """Advance a load balancer.

        :param is_claimed: called before sending; returns whether this
            controller still holds the item.
        :returns: seconds until the next step, or None to wait for a mark;
            workers.FINISHED if the item has also left the queue.
        :raises OctaviaUnavailable: Octavia does not answer.
        """
        key = item.load_balancer_id
        now = self._store.situations.get(key)
        if now is None:
            return self._finish_absent(key, item)
        if now.balancer.pending is not None:
            again = self._settle_pending(now, now.balancer.pending, item)
            if again is not None:
                return again
            now = self._store.situations.get(key)
        if now is None or _is_changing(now):
            return None  # The new change has marked it.
        if now.balancer.deleted:
            return self._finish_deletion(now, item, is_claimed)
        if now.balancer.to_be_compared:
            self._comparison.compare(now.balancer)
            now = self._store.situations.get(key)
            if now is None or _is_changing(now) or now.balancer.deleted:
                return None
        placed = self._scheduler.place(now)
        if placed.notify:
            self._expect(key, now.balancer.generation, placed.notify)
        self._notify(placed.notify)
        if placed.moved:
            now = self._store.situations.get(key)
            if now is None or _is_changing(now) or now.balancer.deleted:
                return None
        if self._divide_limits(now):
            return 0.0
        has_other_proxies, proxies_again_in_s = self._keep_proxies(now)
        if has_other_proxies:
            return 0.0
        later = (0.0 if placed.conflict else _earlier(
            placed.again_in_s, _BUDGET_S if placed.deferred else None,
            proxies_again_in_s))
        sent = self._send_statuses(now, is_claimed,
                                   item if later is None else None)
        if later is None or sent is workers.FINISHED:
            return sent
        return _earlier(sent, later)

    def _divide_limits(self, now: situations.Situation) -> bool:
        """Store which nodes announce the VIPs if they share a limit of
        connections, and return whether that has changed."""
        row = now.balancer
        if not spec.has_limits(row.document):
            return False
        reachable = _reachable(now)
        hosts = connections.announcing(row.document, {
            placed.host: placed.announced for placed in now.placements
            if placed.removed_generation is None
            and placed.host in reachable})
        if not hosts or hosts == row.document.get('announcing'):
            return False
        generation = self._store.load_balancers.change(
            row.id, lambda document: {**document, 'announcing': hosts},
            expected=row.generation)
        if generation is None:
            return False
        LOG.info('Load balancer %s: connection limits are divided among %s, '
                 'generation %s.', row.id, ', '.join(hosts), generation)
        self._notify_nodes(now, generation)
        return True

    def _keep_proxies(self, now: situations.Situation
                      ) -> tuple[bool, float | None]:
        """Store which proxy nodes LB nodes send connections to.

        :returns: whether that has changed, and the seconds until it is to be
            decided again, or None.
        """
        row = now.balancer
        if not proxies.concerns(row.document):
            return False, None
        decision = proxies.decide(
            row.document, row.generation, now.placements,
            clusters.conditions(now.conditions), now.proxy_addresses,
            ages.age(row.changed_at, now.now),
            self._conf.status_timeout * _PATIENCE)
        if not decision.is_change:
            return False, decision.again_in_s
        generation = self._store.load_balancers.change(
            row.id, lambda document: proxies.replaced(
                document, decision.proxies), expected=row.generation)
        if generation is not None:
            LOG.info('Load balancer %s: %s, generation %s.', row.id,
                     proxies.describe(decision.proxies), generation)
            self._notify_nodes(now, generation)
        return True, None

    # Pending changes

    def _settle_pending(self, now: situations.Situation,
                        pending: Mapping[str, Any], item: work.Item
                        ) -> float | None:
        """Promote or drop the pending change.

        :returns: None if that is done, or seconds until the next step.
        """
        row = now.balancer
        if committed.holds(pending,
                           self._octavia.provisioning_status(row.id)):
            generation = self._store.load_balancers.promote(
                row.id, pending['request'])
            if generation is not None:
                LOG.info('Load balancer %s: Octavia has committed %s, '
                         'generation %s.', row.id, _describe(pending),
                         generation)
                self._notify_nodes(now, generation)
            return None
        return self._wait_or_drop(row.id, pending, item)

    def _wait_or_drop(self, key: str, pending: Mapping[str, Any],
                      item: work.Item) -> float | None:
        remaining_s: float = (
            pending['deadline'] + self._conf.confirm_timeout
            - self._store.database.now())
        if (remaining_s > work.LATER_MAX_S
                and item.failures > _COMMIT_CHECKS_MAX):
            remaining_s = 0  # The clock was set back.
        if remaining_s > 0:
            first_s = (requests.UNREPORTED_S if pending.get('reports_end')
                       else _COMMIT_FIRST_S)
            return min(first_s * 2.0 ** item.failures, _COMMIT_MAX_S,
                       remaining_s + 0.1)
        if self._store.requests.drop(key, pending['request']):
            LOG.warning('Load balancer %s: Octavia has not committed %s, '
                        'which is dropped.', key, _describe(pending))
        return None

    def _finish_absent(self, key: str, item: work.Item) -> workers.Again:
        """Finish the deletion of a load balancer that is not stored."""
        pending = self._store.load_balancers.tombstone(key)
        if pending is None:
            return None
        tree = self._octavia.tree(key)
        if tree is not None:
            if not committed.is_deleted(tree.get(('loadbalancer', key))):
                return self._wait_or_drop(key, pending, item)
            with self._waiting.of(key):
                self._updates.deleted(key, tree)
            LOG.info('Load balancer %s, which was not stored, is deleted.',
                     key)
        self._store.requests.drop(key, pending['request'])
        return None

    def _notify_nodes(self, now: situations.Situation,
                      generation: int | None = None) -> None:
        hosts = {row.host for row in now.placements} & _reachable(now)
        if generation is not None:
            self._expect(now.balancer.id, generation, hosts)
        self._notify(hosts)

    # Statuses

    def _send_statuses(self, now: situations.Situation,
                       is_claimed: Callable[[], bool], item: work.Item | None
                       ) -> workers.Again:
        """:param item: None if a further step is due in any case."""
        row, progress = now.balancer, _progress(now)
        remaining_s = ages.left(row.changed_at, self._conf.status_timeout,
                                now.now)
        late = not remaining_s
        waiting = row.unconfirmed or row.removed
        if progress.all_done:
            self._done(row.id, bool(waiting))
        if waiting and not (late or progress.all_done):
            return remaining_s + 0.1
        if not is_claimed():
            return None
        is_last = progress.all_done and not late
        if self._updates.send(row, progress, late, item if is_last else None):
            return workers.FINISHED
        if not (late or progress.all_done):
            return remaining_s + 0.1
        if progress.replacing and late:
            LOG.warning('Load balancer %s: too few other nodes for a complete '
                        'failover; it stays on %s.', row.id,
                        ', '.join(progress.hosts))
            self._store.placements.keep(row.id)
        return None

    # Deletion

    def _finish_deletion(self, now: situations.Situation, item: work.Item,
                         is_claimed: Callable[[], bool]) -> float | None:
        row, leaving = now.balancer, _progress(now).leaving
        if not leaving:
            if not is_claimed():
                return None
            if self._waiting.is_full:
                return _CROWDED_S
            LOG.info('Load balancer %s: no node has it any more; sending '
                     'DELETED to Octavia.', row.id)
            with self._waiting.of(row.id):
                self._send_deleted(row, item)
            self._store.load_balancers.forget(row.id)
            LOG.info('Load balancer %s is deleted.', row.id)
            return None
        remaining_s = ages.left(row.changed_at, self._conf.deletion_timeout,
                                now.now)
        if remaining_s:
            return remaining_s + 0.1
        if row.failed_generation < row.generation:
            if not is_claimed():
                return None
            LOG.error('Load balancer %s: nodes %s have not removed it within '
                      '%s s. Sending ERROR to Octavia; it is deleted once '
                      'they have removed it or are dead.', row.id,
                      ', '.join(leaving), self._conf.deletion_timeout)
            self._updates.not_deleted(row.id)
            self._store.sent_statuses.note(row.id, row.generation, failed=True)
        self._notify_nodes(now)
        return None

    def _send_deleted(self, row: rows.LoadBalancer, item: work.Item) -> None:
        # An earlier message whose answer was lost may have deleted it: do not
        # send DELETED of a load balancer that is gone.
        if not item.failures or self._octavia.provisioning_status(
                row.id) is not None:
            self._updates.deleted(
                row.id, {removed[:2] for removed in row.removed}
                | status_updates.objects(row))


def _is_changing(now: situations.Situation) -> bool:
    """Return whether a change has to be settled first."""
    return not now.balancer.generation or now.balancer.pending is not None


def _reachable(now: situations.Situation) -> set[str]:
    """Return the hosts that report and apply changes."""
    return {host for host, condition in clusters.conditions(
        now.conditions).items() if condition in clusters.REACHABLE}


def _progress(now: situations.Situation) -> progresses.Progress:
    return progresses.Progress(now.balancer, now.placements, _reachable(now),
                               now.states)


def _earlier(*times_s: float | None) -> float | None:
    return min((time_s for time_s in times_s if time_s is not None),
               default=None)


def _describe(pending: Mapping[str, Any]) -> str:
    change = pending['change']
    if change is None:
        return 'the deletion'
    return f'{change["action"]} of {change["object"]} {change["object_id"]}'
