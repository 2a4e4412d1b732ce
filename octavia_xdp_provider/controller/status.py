# SPDX-License-Identifier: Apache-2.0
"""Computes operating statuses from documents and nodes' reports.

The rules are tables (MEMBER, POOL, …) whose first matching row gives the
status. *What the statuses mean* in the user guide is generated from them, and
the tests cover them row by row. All functions are pure.

Each tier is judged by what its own nodes report: members of a pool by the
nodes whose listeners send traffic to it, and by both where a pool is used by
listeners of both. To LB nodes, proxy nodes are members (contracts/views.py).
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any
from typing import Generic
from typing import TypeVar

from octavia_lib.common import constants as lib

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller.store import rows

Statuses = dict[spec.Object, str]

_F = TypeVar('_F')
_WORKING = frozenset({lib.ONLINE, lib.NO_MONITOR})


@dataclasses.dataclass(frozen=True)
class NodeView:
    """The state of a node that should have a load balancer.

    ``live``: whether it reports. ``current``: whether it has applied the
    newest generation. ``error``: why it failed to, or None. ``announced``:
    whether its sessions carry the VIPs, None if unknown or a proxy node.
    ``problems``: texts of its other problems. ``members``: member id → "up",
    "down" or "unknown"; empty if the node's health checker does not work.
    """

    host: str
    live: bool
    current: bool
    error: str | None = None
    announced: bool | None = None
    problems: Sequence[str] = ()
    members: dict[str, str] = dataclasses.field(default_factory=dict)
    role: rows.Role = rows.LB


def view(placement: rows.Placement, state: dict[str, Any], live: bool,
         generation: int) -> NodeView:
    """Return the NodeView of a placement.

    :param state: the node's latest report.
    :param generation: generation of the load balancer.
    """
    # A VIP that is withdrawn on purpose is no fault.
    announces = (placement.role == rows.LB
                 and placement.withdrawn_since is None)
    return NodeView(
        placement.host, live, placement.synced_generation >= generation,
        placement.error, placement.announced if announces else None,
        problems(state),
        {} if knows_no_health(state) else placement.members or {},
        placement.role)


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
    Rule('health not known to any node', lambda m: not m.says, lib.OFFLINE,
         'new, or not probed: load balancer, listener or pool is disabled, no '
         'listener uses the pool, or no node reports'),
    Rule('nodes disagree', lambda m: len(m.says) > 1, lib.DEGRADED,
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
class PolicyFacts:
    enabled: bool


POLICY: tuple[Rule[PolicyFacts], ...] = (
    Rule('disabled, or its listener or load balancer is',
         lambda p: not p.enabled, lib.OFFLINE),
    Rule('enabled', lambda p: True, lib.ONLINE,
         'without an enabled rule, it matches no request'),
)


@dataclasses.dataclass(frozen=True)
class RuleFacts:
    enabled: bool


RULE: tuple[Rule[RuleFacts], ...] = (
    Rule('disabled, or its policy, listener or load balancer is',
         lambda r: not r.enabled, lib.OFFLINE),
    Rule('enabled', lambda r: True, lib.ONLINE),
)


@dataclasses.dataclass(frozen=True)
class ListenerFacts:
    """``served``: whether some LB node serves the load balancer. ``proxied``:
    whether some proxy node serves the listener, None if it needs none.
    ``pools``: statuses of the pools that it sends traffic to."""

    enabled: bool
    served: bool
    proxied: bool | None
    pools: tuple[str, ...]


LISTENER: tuple[Rule[ListenerFacts], ...] = (
    Rule('disabled, or its load balancer is', lambda x: not x.enabled,
         lib.OFFLINE),
    Rule('no LB node serves the load balancer', lambda x: not x.served,
         lib.ERROR),
    Rule('it needs proxy nodes, and none serves it',
         lambda x: x.proxied is False, lib.ERROR),
    Rule('no pool', lambda x: not x.pools, lib.ONLINE),
    Rule('all its pools have the same status',
         lambda x: len(set(x.pools)) == 1, None,
         'its default pool, and those of enabled policies', below='pools'),
    Rule('anything else', lambda x: True, lib.DEGRADED,
         'for example, the pool of a policy has failed'),
)


@dataclasses.dataclass(frozen=True)
class BalancerFacts:
    """``listeners``: statuses of its enabled listeners. ``serving``: LB nodes
    that serve it. ``faulty``: LB nodes and proxy nodes that do not, or have
    problems."""

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
    Rule('some LB node or proxy node does not serve it, or has a problem',
         lambda b: b.faulty > 0, lib.DEGRADED,
         'the others serve all clients, except for packets that still reach '
         'that node'),
    Rule('all listeners ONLINE, or none',
         lambda b: set(b.listeners) <= _WORKING, lib.ONLINE),
    Rule('anything else', lambda b: True, lib.DEGRADED),
)


@dataclasses.dataclass(frozen=True)
class NodeFacts:
    """``expected``: whether a member or a proxy node takes flows, so that the
    VIP must be announced. ``settling``: whether changes may still be under
    way."""

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
    Rule('does not announce the VIP though a member, or a proxy node, takes '
         'flows',
         lambda n: (n.node.announced is False and n.expected
                    and not n.settling), _NOT),
    Rule('a BGP session is down, no uplink can be used, the health checker '
         'does not answer, or another of its processes does not work',
         lambda n: bool(n.node.problems), _LACKS),
    Rule('anything else', lambda n: True, _SERVES),
)

# The tables in the order of the user guide.
TABLES: dict[str, tuple[Rule[Any], ...]] = {
    'loadbalancer': BALANCER, 'listener': LISTENER, 'l7policy': POLICY,
    'l7rule': RULE, 'pool': POOL, 'member': MEMBER, 'healthmonitor': MONITOR,
    'node': NODE}


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
    by_tier = {proxied: tiers.pool_ids(document, proxied)
               for proxied in (False, True)}
    for pool_id, pool in document['pools'].items():
        is_proxied = pool_id in by_tier[True]
        _fold_pool(result, document, pool_id, pool, [
            node for node in nodes
            if (is_proxied if node.role == rows.PROXY
                else not is_proxied or pool_id in by_tier[False])])
    layer_4 = views.for_lb_node(document)
    states = [(node, first(NODE, NodeFacts(
        node, node.role == rows.LB and _takes_flows(layer_4, node),
        settling)).status) for node in nodes]
    serving = {node.host: node.role for node, state in states
               if state != _NOT}
    is_served = rows.LB in serving.values()
    listeners = []
    for listener_id, listener in document['listeners'].items():
        status = _fold_listener(result, document, listener_id, is_served,
                                _is_proxied(document, listener_id, serving))
        if listener['admin_state_up'] and document['admin_state_up']:
            listeners.append(status)
    result['loadbalancer', document['id']] = _status(BALANCER, BalancerFacts(
        document['admin_state_up'],
        sum(role == rows.LB for role in serving.values()),
        sum(state != _SERVES for _, state in states), tuple(listeners)))
    return result


def _is_proxied(document: spec.Document, listener_id: str,
                serving: Mapping[str, str]) -> bool | None:
    """Return whether a proxy node serves a listener, None if it needs none.

    :param serving: hosts that serve the load balancer.
    """
    if tiers.tier(document, listener_id) != tiers.PROXY:
        return None
    proxies = document.get('proxies')
    return proxies is not None and listener_id in proxies['listeners'] and any(
        node['weight'] and host in serving
        for host, node in proxies['nodes'].items())


def _fold_listener(result: Statuses, document: spec.Document,
                   listener_id: str, is_served: bool, is_proxied: bool | None
                   ) -> str:
    """Add the statuses of a listener and its policies; return its own."""
    listener = document['listeners'][listener_id]
    up = listener['admin_state_up'] and document['admin_state_up']
    for policy_id, policy in listener.get('l7policies', {}).items():
        policy_up = up and policy['admin_state_up']
        result['l7policy', policy_id] = _status(POLICY, PolicyFacts(policy_up))
        for rule_id, l7rule in policy['rules'].items():
            result['l7rule', rule_id] = _status(RULE, RuleFacts(
                policy_up and l7rule['admin_state_up']))
    pools = tuple(result['pool', key] for key in sorted(_used_pools(listener))
                  if ('pool', key) in result)
    rule = first(LISTENER, ListenerFacts(up, is_served, is_proxied, pools))
    result['listener', listener_id] = rule.status or pools[0]
    return result['listener', listener_id]


def _used_pools(listener: spec.Listener) -> set[str]:
    """Return the ids of the pools that a listener sends traffic to now."""
    return {key for key in (listener['default_pool_id'], *(
        policy['redirect_pool_id']
        for policy in listener.get('l7policies', {}).values()
        if policy['admin_state_up'] and any(
            l7rule['admin_state_up'] for l7rule in policy['rules'].values())
    )) if key}


def _fold_pool(result: Statuses, document: spec.Document, pool_id: str,
               pool: spec.Pool, nodes: Sequence[NodeView]) -> None:
    """Add the statuses of a pool and its children.

    :param nodes: those that judge its members.
    """
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
    used = any(listener['admin_state_up'] and pool_id in _used_pools(listener)
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
