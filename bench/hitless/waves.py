# SPDX-License-Identifier: Apache-2.0
"""Changes of members in waves, while LB nodes come and go.

Each wave starts with fresh connections in one table of members, T1, and
switches to another one, T2, and back several times, while connections are
opened in each. After each change LB nodes leave, join and restart, and the
router redistributes all connections. After each event all connections have to
answer before the next one.
"""

import dataclasses
import itertools

from bench.hitless import bed as beds
from bench.hitless import owners as ownership
from lab import paths

WEIGHT = 10
# Changes come while slots of the last one are still open, or after a silence
# of all connections in which the slots have closed.
OPEN, CLOSED = 'open', 'closed'
# The shortest that the library accepts, and one that is longer than a wave.
IDLE_TIMEOUTS_S = {CLOSED: 10, OPEN: 600}
# Switches to T2 and back in each wave.
REPEATS = 2
# How often connections are opened late in each wave.
LATE_TIMES = 2 * REPEATS


@dataclasses.dataclass
class Counts:
    """Counts of connections and events.

    ``connections``: opened ones. ``changes``: changes of members, as seen by
    one node. ``node_changes``: nodes that left, joined or restarted, and
    redistributions. ``beyond``: connections whose slot had more owners than a
    table knows; ``broken_beyond``: those of them that broke.
    """

    connections: int = 0
    live: int = 0
    changes: int = 0
    node_changes: int = 0
    broken: int = 0
    broken_of_dead_members: int = 0
    beyond: int = 0
    broken_beyond: int = 0
    not_opened: int = 0
    why: dict = dataclasses.field(default_factory=dict)


class Waves:
    """The waves of one bed.

    :param count: connections at the start of each wave.
    :param late: connections opened after each change.
    """

    counts_type = Counts

    def __init__(self, bed, connections, count, late):
        self.counts = self.counts_type()
        self._bed = bed
        self._connections = connections
        self._count = count
        self._late = late
        self._dead = set()
        self._events = itertools.cycle(self._node_events())
        self._turns = itertools.cycle(bed.nodes)
        self._away = None

    def begin(self, weights, mode):
        """Start a wave: open fresh connections in a settled table."""
        self._note(self._connections.close()['broken'])
        self._owners = ownership.Owners(
            paths.CLIENT_ADDRESS, beds.VIP, beds.PORT)
        self._begun = {}
        self._dead = set()
        self._mode = mode
        self._set_idle_timeout(CLOSED)
        self.change(weights)
        self._bed.settle()
        self._set_idle_timeout(mode)
        self._bed.set_members(weights)
        self.open(self._count)
        self._boot_one()
        self._check()

    def _boot_one(self):
        """Boot a node, so that it does not know earlier owners."""
        self._bed.boot(self._next_node())
        self.counts.node_changes += 1

    def _set_idle_timeout(self, mode):
        self._bed.settings = self._bed.settings._replace(
            idle_timeout_s=IDLE_TIMEOUTS_S[mode])

    def open(self, count):
        """Open connections and wait until all have been answered."""
        answer = self._connections.open(count)
        self._begun.update(dict.fromkeys(answer['ports'], self._owners.now))
        self.counts.connections += len(answer['ports'])
        self.counts.live = max(self.counts.live, answer['living'])
        self.counts.not_opened += len(answer['failed'])
        for why in answer['failed']:
            self._count_reason(f'not opened: {why}')

    def open_late(self):
        """Open some more connections in the present table."""
        self.open(self._late)

    def change(self, weights, down=()):
        """Change the table on all nodes."""
        self._dead |= set(down)
        self._bed.set_members(weights, down)
        self._owners.add(self._bed.table())
        self.counts.changes += 1

    def settle(self):
        """Close slots if the mode says so, before events of nodes."""
        if self._mode == CLOSED:
            self._connections.rest()
            self._bed.settle()

    def close(self, member=None):
        """Close the connections of a drained member, or all."""
        self._note(self._connections.close(member)['broken'])

    def node_events(self, count):
        """Execute the next events of nodes and the router."""
        for _ in range(count):
            next(self._events)()
            self.counts.node_changes += 1
            self._check()

    def end(self):
        """Return all nodes to service; count connections that went beyond."""
        while self._away:
            self.node_events(1)
        for port, begun in self._begun.items():
            if self._is_beyond(port, begun):
                self.counts.beyond += 1

    def _is_beyond(self, port, begun):
        return len(self._owners.since(port, begun)) > ownership.OWNERS_KNOWN

    def _check(self):
        self._note(self._connections.round()['broken'])

    def _note(self, broken):
        for connection in broken:
            if connection['member'] in self._dead:
                self.counts.broken_of_dead_members += 1
                continue
            self.counts.broken += 1
            self._count_reason(connection['why'])
            if self._is_beyond(connection['port'],
                               self._begun[connection['port']]):
                self.counts.broken_beyond += 1

    def _count_reason(self, why):
        self.counts.why[why] = self.counts.why.get(why, 0) + 1

    # Nodes

    def _node_events(self):
        """Return events of nodes, which are repeated in this order."""
        return (self._reshuffle, self._leave, self._restart, self._join,
                self._replace, self._fail, self._reshuffle, self._recover)

    def _reshuffle(self):
        self._bed.reshuffle()

    def _next_node(self):
        return next(node for node in self._turns if node is not self._away)

    def _leave(self):
        self._away = self._next_node()
        self._away.serving = False
        self._bed.route()

    def _join(self):
        self._away.serving = True
        self._bed.route()
        self._away = None

    def _fail(self):
        self._away = self._next_node()
        self._away.set_link('down')
        self._away.serving = False
        self._bed.route()

    def _recover(self):
        self._away.set_link('up')
        self._join()

    def _restart(self):
        self._bed.restart(self._next_node())

    def _replace(self):
        self._bed.replace(self._next_node())


def usual(members):
    """Return T1: all but the last member."""
    return dict.fromkeys(members[:-1], WEIGHT)


def _there_and_back(waves, first, second, down=(), meanwhile=None):
    for _ in range(REPEATS):
        waves.change(second, down)
        waves.open_late()
        waves.settle()
        waves.node_events(2)
        if meanwhile:
            meanwhile()
        waves.change(first)
        waves.open_late()
        waves.settle()
        waves.node_events(2)


def added(waves, members):
    """A member is added, and drained again."""
    _there_and_back(waves, {**usual(members), members[-1]: 0},
                    dict.fromkeys(members, WEIGHT))


def drained(waves, members):
    """A member gets no new connections."""
    first = usual(members)
    _there_and_back(waves, first, {**first, members[1]: 0})


def reweighted(waves, members):
    """A member gets three times the weight."""
    first = usual(members)
    _there_and_back(waves, first, {**first, members[2]: 3 * WEIGHT})


def removed(waves, members):
    """A member is drained, loses its connections and is removed."""
    first = usual(members)
    gone = members[3]

    def remove():
        waves.close(gone)
        waves.change({name: weight for name, weight in first.items()
                      if name != gone})
        waves.node_events(1)
    _there_and_back(waves, first, {**first, gone: 0}, meanwhile=remove)


def died(waves, members):
    """A member dies and comes back."""
    first = usual(members)
    _there_and_back(waves, first, first, down=members[4:5])


KINDS = {'added': added, 'drained': drained, 'reweighted': reweighted,
         'removed': removed, 'died': died}
