# SPDX-License-Identifier: Apache-2.0
"""Which members of pools took new flows before.

This node remembers it of services that forward packets, and reports it. On a
node without any state, where slots know no earlier owners, other nodes' word
for it is given to the datapath. That is done for each service until its first
packet, whenever its table is another one: as long as the health of members
becomes known, what this node sees is no change.

All of it is in memory. An agent that starts on a node whose tables are in use
begins to remember anew.
"""

import threading

from oslo_log import log as logging

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import history
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.common import shape
from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)

# After a question that was not answered.
RETRY_S = 1.0

_ANSWER = shape.Shape(history.Answer)


class _Pool:
    """``members``: weights by id of those that take new flows now, or None.
    ``slots``: of their table. ``changes``: history.PastChange, the newest
    first."""

    def __init__(self):
        self.members, self.slots, self.changes = None, 0, []

    def is_now(self, members, slots):
        self.members, self.slots = members, slots

    def changes_to(self, members, slots, now):
        before = self.members
        if (before, self.slots) == (members, slots):
            return
        others = {key: before.get(key, 0)
                  for key in before.keys() | members.keys()
                  if before.get(key, 0) != members.get(key, 0)}
        change = {'members': others, 'slots': self.slots, 'at': now}
        # Nobody could say what was before one that is not known.
        self.changes = ([] if len(others) > history.WEIGHTS_MAX else
                        [change, *self.changes[:history.CHANGES_MAX - 1]])
        self.is_now(members, slots)


class History:
    """Belongs to the worker's thread, but for ``given``.

    :param tables: tables.Tables.
    :param plans: plans.Plans.
    :param without: called when a service has no history that had one.
    """

    def __init__(self, dataplane, tables, plans, without=lambda: None):
        self._datapath = dataplane
        self._tables = tables
        self._plans = plans
        self._without = without
        self._pools = {}    # load balancer id → pool id → _Pool
        self._given = {}    # load balancer id → pool id → PastChange, …
        self._applied = {}  # key of a service → version of its table

    def given(self, answer):
        """What other nodes remember, just now. For any thread.

        :param answer: load balancer id → history.Aged.
        """
        now = history.clock()
        self._given = {key: {pool_id: [
            {'members': change['members'], 'slots': change['slots'],
             'at': now - change['age']} for change in changes]
            for pool_id, changes in pools.items()}
            for key, pools in answer.items()}

    def look(self, ids):
        """Notice who takes new flows, of load balancers whose tables may be
        others."""
        now = history.clock()
        for load_balancer_id in ids:
            plan = self._plans.plans.get(load_balancer_id)
            before = self._pools.pop(load_balancer_id, {})
            found = {}
            for key, (pool_id, names) in plan.named.items() if plan else ():
                summary = self._tables.services.get(key)
                # Of several services the first one says it.
                if summary is None or pool_id in found:
                    continue
                pool = found[pool_id] = before.get(pool_id) or _Pool()
                members = {names[name]: member.weight for name, member
                           in self._tables.members(key).items()
                           if member.takes_flows and name in names}
                if pool.members is None or not summary.packets:
                    pool.is_now(members, summary.slots)
                else:
                    pool.changes_to(members, summary.slots, now)
            if found:
                self._pools[load_balancer_id] = found

    def of(self, load_balancer_id):
        """history.History of what is remembered, or an empty one."""
        room, found = history.WEIGHTS_MAX, {}
        for pool_id, pool in sorted(
                self._pools.get(load_balancer_id, {}).items()):
            for change in pool.changes:
                room -= max(1, len(change['members']))
                if room < 0:
                    return found
                found.setdefault(pool_id, []).append(change)
        return found

    def apply(self):
        """Give the datapath what others remember of services that have not
        forwarded a packet; whether there is another table then."""
        changed = False
        now = history.clock()
        for load_balancer_id, pools in self._given.items():
            plan = self._plans.plans.get(load_balancer_id)
            for key, (pool_id, names) in plan.named.items() if plan else ():
                summary = self._tables.services.get(key)
                if summary is None or pool_id not in pools or (
                        self._applied.get(key) in (None, summary.version)
                        and key in self._applied):
                    continue
                if self._apply(key, summary, names, pools[pool_id], now):
                    changed = True
                    pool = self._pools.setdefault(
                        load_balancer_id, {}).setdefault(pool_id, _Pool())
                    pool.changes = pools[pool_id]
        return changed

    def _apply(self, key, summary, names, changes, now):
        """:returns: whether it is told, and may be so again."""
        by_id = {member_id: name for name, member_id in names.items()}
        found = [(now - change['at'], change['slots'], {
            by_id[member_id]: weight
            for member_id, weight in change['members'].items()
            if member_id in by_id}) for change in changes
            if now - change['at'] <= history.AGE_MAX_S]
        if not found:
            self._applied[key] = None  # of so long ago no flow is left
            return False
        problem = 'it has forwarded packets before they were known'
        try:
            done = self._datapath.apply_history(key, found)
        except datapath.DatapathError as error:
            if datapath.is_stale(error):
                raise
            done, problem = False, f'they are refused: {error.text}'
        if done:
            if key not in self._applied:
                LOG.info('Service %s %s:%s has the earlier owners of its '
                         'slots from other nodes.', *_words(key))
            # The next version, unless somebody else was faster: then again.
            index, generation, state = summary.version
            self._applied[key] = index, generation + 1, state
            return True
        if key not in self._applied:
            self._without()
            LOG.warning('Service %s %s:%s goes on without the earlier owners '
                        'of its slots: %s.', *_words(key), problem)
        self._applied[key] = None  # no more
        return False


def _words(key):
    return key.protocol, key.address, key.port


class Asker:
    """Asks a controller once, in a thread of its own: nothing waits for it.

    :param controller: rpc.NodesClient.
    :param given: called with what it answers, see History.given.
    :param is_late: whether this node forwards packets already.
    :param without: called when it is too late.
    """

    def __init__(self, controller, host, given, is_late, without):
        self._controller = controller
        self._host = host
        self._given = given
        self._is_late = is_late
        self._without = without
        self._stop = threading.Event()

    def start(self):
        # A daemon: a call to a broker that is away does not end.
        threading.Thread(target=self.run, name='history',
                         daemon=True).start()

    def stop(self):
        self._stop.set()

    def run(self):
        """Until there is an answer, or it would come too late."""
        while not self._stop.is_set():
            is_over = False
            try:
                self._given(self._ask())
                return
            except (*rpc.TRANSPORT_ERRORS, errors.Refused) as error:
                complaint = f'{type(error).__name__}: {error}'
                is_over = rpc.is_unsupported_version(error)
            except Exception:
                LOG.exception('To ask for earlier owners of slots failed.')
                complaint = 'see above'
            if is_over or self._is_late():
                self._without()
                LOG.warning('This node goes on without the earlier owners of '
                            'its slots, which no controller has named in '
                            'time (%s).', complaint)
                return
            self._stop.wait(RETRY_S)

    def _ask(self):
        found, after = {}, None
        while True:
            answer = self._controller.history(self._host, after)
            _ANSWER.check(answer, 'history')
            found.update(answer['load_balancers'])
            before, after = after, answer['more']
            if after is None:
                return found
            if before is not None and after <= before:
                raise errors.Refused('history.more', 'it is no later one',
                                     'name the last load balancer')
