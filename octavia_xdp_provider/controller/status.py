# SPDX-License-Identifier: Apache-2.0
"""Computes operating statuses from documents and nodes' reports.

The rules are tables (MEMBER, POOL, …) whose first matching row gives the
status. *What the statuses mean* in the user guide is generated from them, and
the tests cover them row by row. All functions are pure.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
from typing import Any
from typing import Generic
from typing import TypeVar

from octavia_lib.common import constants as lib

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import rows

Statuses = dict[spec.Object, str]

_F = TypeVar('_F')
_WORKING = frozenset({lib.ONLINE, lib.NO_MONITOR})


@dataclasses.dataclass(frozen=True)
class NodeView:
    """The state of a node that should have a load balancer.

    ``live``: whether it reports. ``current``: whether it has applied the
    newest generation. ``error``: why it failed to, or None. ``announced``:
    whether its sessions carry the VIPs, None if unknown. ``problems``: texts
    of its other problems. ``members``: member id → "up", "down" or "unknown";
    empty if the node's health checker does not work.
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
    """Return the NodeView of a placement.

    :param state: the node's latest report.
    :param generation: generation of the load balancer.
    """
    return NodeView(
        placement.host, live, placement.synced_generation >= generation,
        placement.error,
        # A VIP that is withdrawn on purpose is no fault.
        placement.announced if placement.withdrawn_since is None else None,
        problems(state),
        {} if knows_no_health(state) else placement.members or {})


@dataclasses.dataclass(frozen=True)
class Rule(Generic[_F]):
    """A row of a table: gives ``status`` if ``holds`` is true.

    ``when``, ``remark``: texts of the user guide. A status of None is that of
    the child object named by ``below``.
    """

    when: str
    holds: Callable[[_F], bool]
    status: str | None
    remark: str = ''
    below: str = ''


@dataclasses.dataclass(frozen=True)
class MemberFacts:
    """``says``: the nodes' results, a subset of "up" and "down". ``way``:
    with zero-touch, "none" if it cannot be reached, "open" before that is
    decided (see spec.Member); otherwise ""."""

    enabled: bool
    monitored: bool
    weight: int
    says: frozenset[str]
    way: str = ''


MEMBER: tuple[Rule[MemberFacts], ...] = (
    Rule('disabled', lambda m: not m.enabled, lib.OFFLINE),
    Rule('cannot be reached through its hypervisor, as the flavor requires',
         lambda m: m.way == 'none', lib.ERROR,
         'only the operator can see why (:doc:`vms`)'),
    Rule('the way to it is not decided yet', lambda m: m.way == 'open',
         lib.OFFLINE, 'its port is being looked up, or its hypervisor is not '
         'ready'),
    Rule('no health monitor, weight 0',
         lambda m: not m.monitored and m.weight == 0, lib.DRAINING,
         'takes no new flows'),
    Rule('no health monitor, or a disabled one', lambda m: not m.monitored,
         lib.NO_MONITOR, 'counts as up'),
    Rule('health not known to any LB node', lambda m: not m.says, lib.OFFLINE,
         'new, or not probed: load balancer, listener or pool is disabled, no '
         'listener uses the pool, or no LB node reports'),
    Rule('LB nodes disagree', lambda m: len(m.says) > 1, lib.DEGRADED,
         'some reach it and some do not'),
    Rule('down', lambda m: m.says == {'down'}, lib.ERROR),
    Rule('up, weight 0', lambda m: m.weight == 0, lib.DRAINING,
         'takes no new flows'),
    Rule('up', lambda m: True, lib.ONLINE),
)


@dataclasses.dataclass(frozen=True)
class PoolFacts:
    """``members``: statuses of the pool's enabled members."""

    enabled: bool
    used: bool
    members: tuple[str, ...]


POOL: tuple[Rule[PoolFacts], ...] = (
    Rule('disabled, or its load balancer is', lambda p: not p.enabled,
         lib.OFFLINE),
    Rule('no enabled listener uses it', lambda p: not p.used, lib.OFFLINE),
    Rule('no enabled members', lambda p: not p.members, lib.ONLINE,
         'the pool has no fault, but no member answers'),
    Rule('all members OFFLINE', lambda p: set(p.members) == {lib.OFFLINE},
         lib.OFFLINE, 'their health is not known'),
    Rule('all members ERROR or DRAINING',
         lambda p: set(p.members) <= {lib.ERROR, lib.DRAINING}, lib.ERROR,
         'no member takes new flows'),
    Rule('all members ONLINE, NO_MONITOR or DRAINING',
         lambda p: set(p.members) <= _WORKING | {lib.DRAINING}, lib.ONLINE,
         'a draining member is no fault'),
    Rule('anything else', lambda p: True, lib.DEGRADED,
         'some members do not work, even if only a backup does not, or only '
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
    """``served``: whether some LB node serves the load balancer."""

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
         'the others serve all clients, except for packets that still reach '
         'that LB node'),
    Rule('all listeners ONLINE, or none',
         lambda b: set(b.listeners) <= _WORKING, lib.ONLINE),
    Rule('anything else', lambda b: True, lib.DEGRADED),
)


@dataclasses.dataclass(frozen=True)
class NodeFacts:
    """``expected``: whether a member takes flows, so that the VIP must be
    announced. ``settling``: whether changes may still be under way."""

    node: NodeView
    expected: bool
    settling: bool


_SERVES, _LACKS, _NOT = 'serves', 'serves, with a problem', 'does not serve'

NODE: tuple[Rule[NodeFacts], ...] = (
    Rule('has not reported for longer than the node time-out',
         lambda n: not n.node.live, _NOT),
    Rule('failed to apply the newest change',
         lambda n: n.node.error is not None, _NOT),
    Rule('has not applied the newest change in time',
         lambda n: not n.node.current and not n.settling, _NOT),
    Rule('does not announce the VIP though a member takes flows',
         lambda n: (n.node.announced is False and n.expected
                    and not n.settling), _NOT),
    Rule('a BGP session is down, no uplink can be used, the health checker '
         'does not answer, or another of its processes does not work',
         lambda n: bool(n.node.problems), _LACKS),
    Rule('anything else', lambda n: True, _SERVES),
)

# The tables in the order of the user guide.
TABLES: dict[str, tuple[Rule[Any], ...]] = {
    'loadbalancer': BALANCER, 'listener': LISTENER, 'pool': POOL,
    'member': MEMBER, 'healthmonitor': MONITOR, 'node': NODE}


def first(rules: Iterable[Rule[_F]], facts: _F) -> Rule[_F]:
    """Return the first matching rule; the last of a table always matches."""
    return next(rule for rule in rules if rule.holds(facts))


def operating_statuses(document: spec.Document, nodes: Iterable[NodeView],
                       settling: bool = False) -> Statuses:
    """Return the operating status of each object of a load balancer.

    :param nodes: all nodes on which it is placed, including dead ones.
    :param settling: whether document or placement are so new that a live node
        need not have applied them yet.
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
    """Add the statuses of a pool and its children."""
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
    """Return whether some member takes new flows according to the node."""
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
    """Return the problems in a node's report (messages.NodeState).

    Fields that a node omits are no problem.
    """
    texts = [str(text) for text in state.get('problems') or ()]
    established = state.get('bgp_established')
    if established and established[0] < established[1]:
        texts.append('{} of {} BGP sessions are up'.format(*established))
    if state.get('uplinks_ready') == []:
        texts.append('no uplink can be used')
    if state.get('health_checker', {}) is None:
        texts.append('the health checker does not answer')
    texts += [str(problem) for _, problem in sorted(
        (state.get('processes') or {}).items()) if problem]
    return texts


def knows_no_health(state: dict[str, Any]) -> bool:
    """Return whether the node's reports on members are outdated."""
    return (state.get('health_checker', {}) is None
            or bool((state.get('processes') or {}).get(
                messages.RESULT_HANDLER)))
