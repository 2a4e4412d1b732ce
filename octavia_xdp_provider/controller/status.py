# SPDX-License-Identifier: Apache-2.0
"""Operating statuses, folded from documents and what the nodes report.

The rules are tables (MEMBER, POOL, …): the first one that holds gives the
status. *What the statuses mean* in the user guide is made of them, and the
tests walk them row by row. Everything here is pure.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
from typing import Any
from typing import Generic
from typing import TypeVar

from octavia_lib.common import constants as lib

from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.store import rows

Statuses = dict[spec.Object, str]

_F = TypeVar('_F')
_WORKING = frozenset({lib.ONLINE, lib.NO_MONITOR})


@dataclasses.dataclass(frozen=True)
class NodeView:
    """A node that shall carry a load balancer, and what is known of it.

    ``live``: it is heard. ``current``: it has made the newest generation
    true. ``error``: why it could not, or None. ``announced``: whether its
    sessions carry the VIPs; None where that is not known. ``problems``: what
    else it lacks, texts. ``members``: member id → "up", "down" or "unknown";
    a node whose health checker does not work must not be given as knowing.
    """

    host: str
    live: bool
    current: bool
    error: str | None = None
    announced: bool | None = None
    problems: Sequence[str] = ()
    members: dict[str, str] = dataclasses.field(default_factory=dict)


def view(placement: rows.Placement, state: dict[str, Any], live: bool,
         generation: int) -> NodeView:
    """A node as its rows in the database say.

    :param state: what the node last reported of itself.
    :param generation: of the load balancer.
    """
    return NodeView(
        placement.host, live, placement.synced_generation >= generation,
        placement.error,
        # What is withdrawn on purpose is no fault.
        placement.announced if placement.withdrawn_since is None else None,
        problems(state),
        {} if knows_no_health(state) else placement.members or {})


@dataclasses.dataclass(frozen=True)
class Rule(Generic[_F]):
    """A row of a table: ``status`` where ``holds``, unless one above did.

    ``when``, ``remark``: what users read. A status of None is that of what
    stands below, see ``below``.
    """

    when: str
    holds: Callable[[_F], bool]
    status: str | None
    remark: str = ''
    below: str = ''


@dataclasses.dataclass(frozen=True)
class MemberFacts:
    """``says``: what the nodes that know say of it, "up" and "down".
    ``way``: where a controller decides on it, see spec.Member: "none" where
    it cannot be reached, "open" before that is known, "" for all else."""

    enabled: bool
    monitored: bool
    weight: int
    says: frozenset[str]
    way: str = ''


MEMBER: tuple[Rule[MemberFacts], ...] = (
    Rule('disabled', lambda m: not m.enabled, lib.OFFLINE),
    Rule('cannot be reached through its hypervisor, as the flavor requires',
         lambda m: m.way == 'none', lib.ERROR,
         '``octavia-xdp-manage lb members`` shows why'),
    Rule('how it is reached is not known yet', lambda m: m.way == 'open',
         lib.OFFLINE, 'its port is looked for, or its hypervisor is not '
         'ready'),
    Rule('no health monitor, weight 0',
         lambda m: not m.monitored and m.weight == 0, lib.DRAINING,
         'takes no new flows'),
    Rule('no health monitor, or a disabled one', lambda m: not m.monitored,
         lib.NO_MONITOR, 'counts as up'),
    Rule('health not known to any LB node', lambda m: not m.says, lib.OFFLINE,
         'new, or nobody probes it: load balancer, listener or pool is '
         'disabled, no listener uses the pool, or no LB node is heard'),
    Rule('LB nodes disagree', lambda m: len(m.says) > 1, lib.DEGRADED,
         'some reach it and some do not'),
    Rule('down', lambda m: m.says == {'down'}, lib.ERROR),
    Rule('up, weight 0', lambda m: m.weight == 0, lib.DRAINING,
         'takes no new flows'),
    Rule('up', lambda m: True, lib.ONLINE),
)


@dataclasses.dataclass(frozen=True)
class PoolFacts:
    """``members``: statuses of its enabled members."""

    enabled: bool
    used: bool
    members: tuple[str, ...]


POOL: tuple[Rule[PoolFacts], ...] = (
    Rule('disabled, or its load balancer is', lambda p: not p.enabled,
         lib.OFFLINE),
    Rule('no enabled listener uses it', lambda p: not p.used, lib.OFFLINE),
    Rule('no enabled members', lambda p: not p.members, lib.ONLINE,
         'nothing is wrong with it, but nothing answers'),
    Rule('all members OFFLINE', lambda p: set(p.members) == {lib.OFFLINE},
         lib.OFFLINE, 'their health is not known'),
    Rule('all members ERROR or DRAINING',
         lambda p: set(p.members) <= {lib.ERROR, lib.DRAINING}, lib.ERROR,
         'nobody takes new flows'),
    Rule('all members ONLINE, NO_MONITOR or DRAINING',
         lambda p: set(p.members) <= _WORKING | {lib.DRAINING}, lib.ONLINE,
         'a draining member is no fault'),
    Rule('anything else', lambda p: True, lib.DEGRADED,
         'some members do not work, also where it is only a backup, or only '
         'backups work'),
)


@dataclasses.dataclass(frozen=True)
class MonitorFacts:
    enabled: bool


MONITOR: tuple[Rule[MonitorFacts], ...] = (
    Rule('disabled, or its pool or load balancer is',
         lambda m: not m.enabled, lib.OFFLINE),
    Rule('enabled', lambda m: True, lib.ONLINE),
)


@dataclasses.dataclass(frozen=True)
class ListenerFacts:
    """``served``: some LB node serves the load balancer."""

    enabled: bool
    served: bool
    pool: str | None


LISTENER: tuple[Rule[ListenerFacts], ...] = (
    Rule('disabled, or its load balancer is', lambda x: not x.enabled,
         lib.OFFLINE),
    Rule('no LB node serves the load balancer', lambda x: not x.served,
         lib.ERROR),
    Rule('no default pool', lambda x: x.pool is None, lib.ONLINE),
    Rule('anything else', lambda x: True, None, below='pool'),
)


@dataclasses.dataclass(frozen=True)
class BalancerFacts:
    """``listeners``: statuses of its enabled listeners. ``serving``: LB nodes
    that serve it. ``faulty``: LB nodes that do not, or have problems."""

    enabled: bool
    serving: int
    faulty: int
    listeners: tuple[str, ...]


BALANCER: tuple[Rule[BalancerFacts], ...] = (
    Rule('disabled', lambda b: not b.enabled, lib.OFFLINE),
    Rule('no LB node serves it', lambda b: not b.serving, lib.ERROR),
    Rule('all listeners ERROR',
         lambda b: set(b.listeners) == {lib.ERROR}, lib.ERROR),
    Rule('all listeners OFFLINE',
         lambda b: set(b.listeners) == {lib.OFFLINE}, lib.OFFLINE),
    Rule('some LB node does not serve it, or has a problem',
         lambda b: b.faulty > 0, lib.DEGRADED,
         'the others serve all clients, but for what reaches that LB node '
         'all the same'),
    Rule('all listeners ONLINE, or none',
         lambda b: set(b.listeners) <= _WORKING, lib.ONLINE),
    Rule('anything else', lambda b: True, lib.DEGRADED),
)


@dataclasses.dataclass(frozen=True)
class NodeFacts:
    """``expected``: it has a member that takes flows, so that the VIP must
    be announced. ``settling``: what is new may still be under way."""

    node: NodeView
    expected: bool
    settling: bool


_SERVES, _LACKS, _NOT = 'serves', 'serves, with a problem', 'does not serve'

NODE: tuple[Rule[NodeFacts], ...] = (
    Rule('not heard for longer than the node time-out',
         lambda n: not n.node.live, _NOT),
    Rule('could not make the newest change true',
         lambda n: n.node.error is not None, _NOT),
    Rule('has not made the newest change true in time',
         lambda n: not n.node.current and not n.settling, _NOT),
    Rule('does not announce the VIP though a member takes flows',
         lambda n: (n.node.announced is False and n.expected
                    and not n.settling), _NOT),
    Rule('a BGP session is down, no uplink can be used, the health checker '
         'does not answer, or another of its processes stands still',
         lambda n: bool(n.node.problems), _LACKS),
    Rule('anything else', lambda n: True, _SERVES),
)

# What the user guide shows, in this order.
TABLES: dict[str, tuple[Rule[Any], ...]] = {
    'loadbalancer': BALANCER, 'listener': LISTENER, 'pool': POOL,
    'member': MEMBER, 'healthmonitor': MONITOR, 'node': NODE}


def first(rules: Iterable[Rule[_F]], facts: _F) -> Rule[_F]:
    """The rule that decides; the last of a table always holds."""
    return next(rule for rule in rules if rule.holds(facts))


def operating_statuses(document: spec.Document, nodes: Iterable[NodeView],
                       settling: bool = False) -> Statuses:
    """Operating status of every object of a load balancer.

    :param nodes: all on which it is placed, also dead ones.
    :param settling: document or placement are so new that what is missing on
        live nodes is no fault yet.
    """
    nodes = list(nodes)
    result: Statuses = {}
    for pool_id, pool in document['pools'].items():
        _fold_pool(result, document, pool_id, pool, nodes)
    states = [first(NODE, NodeFacts(node, _takes_flows(document, node),
                                    settling)).status for node in nodes]
    serving = sum(state != _NOT for state in states)
    listeners = []
    for listener_id, listener in document['listeners'].items():
        enabled = listener['admin_state_up'] and document['admin_state_up']
        below = result.get(('pool', listener['default_pool_id'] or ''))
        rule = first(LISTENER, ListenerFacts(enabled, serving > 0, below))
        status = rule.status or below or lib.ONLINE
        result['listener', listener_id] = status
        if enabled:
            listeners.append(status)
    result['loadbalancer', document['id']] = _status(BALANCER, BalancerFacts(
        document['admin_state_up'], serving,
        sum(state != _SERVES for state in states), tuple(listeners)))
    return result


def _fold_pool(result: Statuses, document: spec.Document, pool_id: str,
               pool: spec.Pool, nodes: Sequence[NodeView]) -> None:
    """Add the statuses of a pool and of what is below it."""
    up = document['admin_state_up'] and pool['admin_state_up']
    monitor = pool['healthmonitor']
    if monitor:
        result['healthmonitor', monitor['id']] = _status(
            MONITOR, MonitorFacts(up and monitor['admin_state_up']))
    members = []
    for member_id, member in pool['members'].items():
        status = _status(MEMBER, MemberFacts(
            member['admin_state_up'], _monitored(pool), member['weight'],
            frozenset(node.members.get(member_id, '') for node in nodes
                      if node.live) & {'up', 'down'},
            _way(document, member)))
        result['member', member_id] = status
        if member['admin_state_up']:
            members.append(status)
    used = any(listener['default_pool_id'] == pool_id
               and listener['admin_state_up']
               for listener in document['listeners'].values())
    result['pool', pool_id] = _status(
        POOL, PoolFacts(up, used, tuple(members)))


def _way(document: spec.Document, member: spec.Member) -> str:
    if not spec.is_zero_touch(document) or spec.is_reached(member):
        return ''
    return member.get('way') or 'open'


def _monitored(pool: spec.Pool) -> bool:
    monitor = pool['healthmonitor']
    return monitor is not None and monitor['admin_state_up']


def _takes_flows(document: spec.Document, node: NodeView) -> bool:
    """Whether some member takes new flows, as far as the node knows."""
    return any(
        member['admin_state_up'] and member['weight'] > 0
        and not _way(document, member)
        and (not _monitored(pool) or node.members.get(member_id) == 'up')
        for _, _, pool in spec.forwarded(document)
        for member_id, member in pool['members'].items())


def _status(rules: Iterable[Rule[_F]], facts: _F) -> str:
    status = first(rules, facts).status
    assert status is not None
    return status


def problems(state: dict[str, Any]) -> list[str]:
    """What a node lacks, of what it reports of itself (messages.NodeState).

    What an older node does not say is no problem.
    """
    found = [str(text) for text in state.get('problems') or ()]
    established = state.get('bgp_established')
    if established and established[0] < established[1]:
        found.append('{} of {} BGP sessions are up'.format(*established))
    if state.get('uplinks_ready') == []:
        found.append('no uplink can be used')
    if state.get('health_checker', {}) is None:
        found.append('the health checker does not answer')
    found += [str(problem) for _, problem in sorted(
        (state.get('processes') or {}).items()) if problem]
    return found


def knows_no_health(state: dict[str, Any]) -> bool:
    """Whether what the node says of members is only what once was."""
    return (state.get('health_checker', {}) is None
            or bool((state.get('processes') or {}).get(
                messages.RESULT_HANDLER)))
