# SPDX-License-Identifier: Apache-2.0
"""Which members of pools took new flows in the past.

A node records the changes of services that forward packets, and reports them.
A node without state does not know the former owners of slots, and no node does
of a load balancer that has just been placed on it. So its datapath gets the
changes that other nodes have reported. They are applied to each service again
whenever its table changes, until its first packet: before that, changes only
show that the health of members has become known. Everything is kept in memory.
An agent that starts on a node whose tables are in use begins with an empty
history.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import threading
from typing import Any

from oslo_log import log as logging

from octavia_xdp_provider.agent import plans as agent_plans
from octavia_xdp_provider.agent import tables as agent_tables
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)

Weights = dict[str, int]
# Service → version of its table when a history was applied; None: never again.
Applied = dict[datapath.Key, tuple[int, int, int] | None]

# Pause after a request without an answer.
RETRY_S = 1.0
# Requests for load balancers that were placed on a node that forwards packets.
TRIES_MAX = 30

_ANSWER = shape.Shape(history.Answer)


class _Pool:
    """``members``: id → weight of the members that take new flows, or None.
    ``slots``: size of their table. ``changes``: list of history.PastChange,
    newest first. ``ids``: of all members of the pool. ``names``: by id, also
    of removed members that ``changes`` mentions."""

    def __init__(self) -> None:
        self.members: Weights | None = None
        self.slots = 0
        self.changes: list[history.PastChange] = []
        self.ids: frozenset[str] = frozenset()
        self.names: dict[str, datapath.MemberName] = {}

    def know(self, names: Mapping[datapath.MemberName, str]) -> None:
        """Note the names and ids of the pool's members."""
        self.ids = frozenset(names.values())
        known = self.names | {key: name for name, key in names.items()}
        mentioned = self.ids.union(self.members or (), *(
            change['members'] for change in self.changes))
        self.names = {key: name for key, name in known.items()
                      if key in mentioned}

    def report(self, change: history.PastChange) -> history.PastChange:
        """Return a change with members that were removed by their names."""
        removed = change.get('removed', []) + [history.Removed(
            address=self.names[key].address, port=self.names[key].port,
            weight=weight) for key, weight in sorted(
                change['members'].items())
            if key not in self.ids and key in self.names]
        reported: history.PastChange = {
            'members': {key: weight for key, weight
                        in change['members'].items() if key in self.ids},
            'slots': change['slots'], 'at': change['at']}
        if removed:
            reported['removed'] = removed
        return reported

    def is_now(self, members: Weights, slots: int) -> None:
        self.members, self.slots = members, slots

    def changes_to(self, members: Weights, slots: int, now: int) -> None:
        before = self.members or {}
        if (before, self.slots) == (members, slots):
            return
        weights = {key: before.get(key, 0)
                   for key in before.keys() | members.keys()
                   if before.get(key, 0) != members.get(key, 0)}
        change: history.PastChange = {
            'members': weights, 'slots': self.slots, 'at': now}
        # Older changes are useless without one that is too big to report.
        self.changes = ([] if len(weights) > history.WEIGHTS_MAX else
                        [change, *self.changes[:history.CHANGES_MAX - 1]])
        self.is_now(members, slots)


class History:
    """Used by the worker's thread only, except for ``given``.

    What other nodes have reported is kept until a load balancer leaves.

    :param without: called when a service cannot get other nodes' history.
    """

    def __init__(self, dataplane: datapath.Datapath,
                 tables: agent_tables.Tables, plans: agent_plans.Plans,
                 without: Callable[[], None] = lambda: None) -> None:
        self._datapath = dataplane
        self._tables = tables
        self._plans = plans
        self._without = without
        # By load balancer id and pool id.
        self._pools: dict[str, dict[str, _Pool]] = {}
        self._given: dict[str, dict[str, list[history.PastChange]]] = {}
        self._lock = threading.Lock()  # of _given
        self._applied: dict[str, Applied] = {}  # by load balancer id

    def given(self, answer: Mapping[str, history.Aged]) -> None:
        """Take the history that other nodes have reported. For any thread.

        :param answer: load balancer id → history.Aged, as of now.
        """
        now = history.clock()
        given: dict[str, dict[str, list[history.PastChange]]] = {
            key: {pool_id: [
                {'members': change['members'],
                 'removed': change.get('removed', []),
                 'slots': change['slots'], 'at': now - change['age']}
                for change in changes] for pool_id, changes in pools.items()}
            for key, pools in answer.items()}
        with self._lock:
            self._given = {**self._given, **given}

    def forget(self, ids: set[str]) -> None:
        """Forget load balancers that this node no longer has."""
        for key in ids:
            self._pools.pop(key, None)
            self._applied.pop(key, None)
        with self._lock:
            self._given = {key: pools for key, pools in self._given.items()
                           if key not in ids}

    def look(self, ids: Iterable[str]) -> None:
        """Record which members of load balancers with possibly changed tables
        take new flows."""
        now = history.clock()
        for load_balancer_id in ids:
            plan = self._plans.plans.get(load_balancer_id)
            before = self._pools.pop(load_balancer_id, {})
            pools: dict[str, _Pool] = {}
            for key, (pool_id, names) in plan.named.items() if plan else ():
                summary = self._tables.services.get(key)
                # The first service of a pool stands for all of them.
                if summary is None or pool_id in pools:
                    continue
                pool = pools[pool_id] = before.get(pool_id) or _Pool()
                pool.know(names)
                members = {names[name]: member.weight for name, member
                           in self._tables.members(key).items()
                           if member.takes_flows and name in names}
                if pool.members is None or not summary.packets:
                    pool.is_now(members, summary.slots)
                else:
                    pool.changes_to(members, summary.slots, now)
            if pools:
                self._pools[load_balancer_id] = pools

    def of(self, load_balancer_id: str) -> history.History:
        """Return the recorded history.History, which may be empty."""
        room = history.WEIGHTS_MAX
        changes: history.History = {}
        for pool_id, pool in sorted(
                self._pools.get(load_balancer_id, {}).items()):
            for change in pool.changes:
                reported = pool.report(change)
                room -= max(1, history.weights_in({pool_id: [reported]}))
                if room < 0:
                    return changes
                changes.setdefault(pool_id, []).append(reported)
        return changes

    def apply(self) -> bool:
        """Give the datapath other nodes' history of services without packets
        so far. Return whether any table has changed."""
        changed = False
        now = history.clock()
        for load_balancer_id, pools in self._given.items():
            plan = self._plans.plans.get(load_balancer_id)
            applied = self._applied.setdefault(load_balancer_id, {})
            for key, (pool_id, names) in plan.named.items() if plan else ():
                summary = self._tables.services.get(key)
                if summary is None or pool_id not in pools or (
                        applied.get(key) in (None, summary.version)
                        and key in applied):
                    continue
                if self._apply(applied, key, summary, names, pools[pool_id],
                               now):
                    changed = True
                    pool = self._pools.setdefault(
                        load_balancer_id, {}).setdefault(pool_id, _Pool())
                    # What this node has seen since then is newer.
                    pool.changes = pool.changes or pools[pool_id]
        return changed

    def _apply(self, applied: Applied, key: datapath.Key,
               summary: datapath.Summary,
               names: dict[datapath.MemberName, str],
               changes: list[history.PastChange], now: int) -> bool:
        """Return whether the datapath has taken the history."""
        by_id = {member_id: name for name, member_id in names.items()}
        recent = [(now - change['at'], change['slots'], {
            by_id[member_id]: weight
            for member_id, weight in change['members'].items()
            if member_id in by_id} | {
                datapath.MemberName(member['address'],
                                    member['port']): member['weight']
                for member in change.get('removed', ())}) for change in changes
            if now - change['at'] <= history.AGE_MAX_S]
        if not recent:
            applied[key] = None  # flows that old have ended
            return False
        problem = 'it has forwarded packets before they were known'
        try:
            done = self._datapath.apply_history(key, recent)
        except datapath.DatapathError as error:
            if datapath.is_stale(error):
                raise
            done, problem = False, f'they are refused: {error.text}'
        if done:
            if key not in applied:
                LOG.info('Service %s %s:%s has the earlier owners of its '
                         'slots from other nodes.', *_describe(key))
            # If another process changes the table first, apply it again.
            index, generation, state = summary.version
            applied[key] = index, generation + 1, state
            return True
        if key not in applied:
            self._without()
            LOG.warning('Service %s %s:%s goes on without the earlier owners '
                        'of its slots: %s.', *_describe(key), problem)
        applied[key] = None  # never again
        return False


def _describe(key: datapath.Key) -> tuple[str, str, int]:
    return key.protocol, key.address, key.port


class Asker:
    """Requests histories, each once, in a thread that nothing waits for.

    :param given: called with an answer, see History.given.
    :param is_late: returns whether this node already forwards packets.
    :param without: called when a request is given up.
    :param has_state: whether this node forwarded packets before it started.
        If not, the thread first requests the history of everything.
    """

    def __init__(self, controller: rpc.NodesClient, host: str,
                 given: Callable[[dict[str, history.Aged]], None],
                 is_late: Callable[[], bool], without: Callable[[], None],
                 has_state: bool = False) -> None:
        self._controller = controller
        self._host = host
        self._given = given
        self._is_late = is_late
        self._without = without
        self._has_state = has_state
        self._lock = threading.Lock()
        self._ids: set[str] = set()  # to be requested
        self._work = threading.Event()
        self._stop = threading.Event()

    def ask(self, ids: set[str]) -> None:
        """Request the history of load balancers that were placed on this node
        while it was running. For any thread."""
        with self._lock:
            self._ids |= ids
        self._work.set()

    def start(self) -> None:
        # A daemon, as a call to an unreachable broker may never return.
        threading.Thread(target=self.run, name='history',
                         daemon=True).start()

    def stop(self) -> None:
        self._stop.set()
        self._work.set()

    def run(self) -> None:
        if not self._has_state:
            self.request()
        while True:
            self._work.wait()
            if self._stop.is_set():
                return
            self._work.clear()
            with self._lock:
                ids, self._ids = sorted(self._ids), set()
            for first in range(0, len(ids), history.PAGE):
                self.request(ids[first:first + history.PAGE])

    def request(self, ids: list[str] | None = None) -> None:
        """Repeat a request until it is answered or would be too late.

        :param ids: at most PAGE; None: of all load balancers of this node.
        """
        tries = 0
        while not self._stop.is_set():
            is_over = False
            tries += 1
            try:
                self._given(self._ask(ids))
                return
            except (*rpc.TRANSPORT_ERRORS, errors.Refused) as error:
                complaint = f'{type(error).__name__}: {error}'
                is_over = rpc.is_unsupported_version(error)
            except Exception:
                LOG.exception('The request for owners of slots failed.')
                complaint = 'see above'
            if is_over or (self._is_late() if ids is None
                           else tries >= TRIES_MAX):
                self._without()
                LOG.warning('This node goes on without the earlier owners of '
                            'the slots of %s, because no controller has '
                            'answered in time (%s).', 'its load balancers'
                            if ids is None else ', '.join(ids), complaint)
                return
            self._stop.wait(RETRY_S)

    def _ask(self, ids: list[str] | None) -> dict[str, history.Aged]:
        load_balancers: dict[str, history.Aged] = {}
        after: Any = None
        while True:
            answer = self._controller.history(self._host, after, ids)
            _ANSWER.check(answer, 'history')
            load_balancers.update(answer['load_balancers'])
            before, after = after, answer['more']
            if after is None:
                return load_balancers
            if before is not None and after <= before:
                raise errors.Refused('history.more', 'it is no later one',
                                     'name the last load balancer')
