# SPDX-License-Identifier: Apache-2.0
"""Decides how to reach each member of a load balancer. Pure functions."""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses

from octavia_xdp_provider.api import zero_touch
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.zero_touch import ends as ends_
from octavia_xdp_provider.controller.zero_touch import port_documents
from octavia_xdp_provider.controller.zero_touch import tokens as tokens_

TUNNEL, DIRECT, NONE, WAITING = 'tunnel', 'direct', 'none', 'waiting'

# Obstacles that may pass by themselves: a member keeps its tunnel. They do not
# include those that a user has caused in order to stop traffic.
PASSING = frozenset((
    findings.Obstacle.UNBOUND, findings.Obstacle.BINDING_FAILED,
    findings.Obstacle.NOT_VISIBLE))

_NO_TOKENS = tokens_.Tokens()

Seen = Mapping[findings.Wanted, findings.Finding]


@dataclasses.dataclass(frozen=True)
class Decision:
    """How to reach a member.

    ``way``: TUNNEL, DIRECT, NONE, or WAITING to leave it as it is. With TUNNEL
    it leads to ``port`` on each of ``hosts``, of which the first is the port's
    current one.
    """

    way: str
    reason: str = ''
    hosts: tuple[str, ...] = ()
    port: findings.Port | None = None


def wanted(document: spec.Document, member: spec.Member) -> findings.Wanted:
    return findings.Wanted(document.get('project_id') or '',
                           member['address'], member.get('subnet_id'))


def all_wanted(document: spec.Document) -> list[findings.Wanted]:
    return [wanted(document, member) for pool in document['pools'].values()
            for member in pool['members'].values()]


def listeners(document: spec.Document, pool_id: str) -> list[str]:
    """Return the ids of a pool's listeners, including disabled ones, which
    may be enabled at any time, and those that LB nodes send to it until proxy
    nodes serve them from another pool."""
    moving = document.get('proxies', {}).get('moving', {})
    return sorted(key for key, listener in document['listeners'].items()
                  if pool_id in (listener['default_pool_id'],
                                 moving.get(key)))


def uses(document: spec.Document, pool_id: str) -> list[str]:
    """Return what a pool's members need keys for: the ids of its listeners,
    or its own if proxy nodes send to its members, which all listeners do
    alike. Empty if no listener has the pool."""
    if not tokens_.is_proxied(document, pool_id):
        return listeners(document, pool_id)
    pool = document['pools'][pool_id]
    return [pool_id] if any(
        other is pool for listener in document['listeners'].values()
        for other in spec.pools_of(document, listener)) else []


def decide(document: spec.Document, seen: Seen, ends: ends_.Ends,
           is_silent: Callable[[str], bool],
           tokens: tokens_.Tokens = _NO_TOKENS) -> dict[str, Decision]:
    """Return member id → Decision.

    :param seen: Neutron's findings; members without one were not looked up
        yet.
    :param ends: tunnel ends of the registered hypervisors.
    :param is_silent: whether a hypervisor's agent has not called for long.
    """
    decisions = {key: _decide(document, pool_id, key, seen, ends, is_silent,
                              tokens)
                 for pool_id, pool in document['pools'].items()
                 for key in pool['members']}
    if len(zero_touch.vip_versions(document)) > 1:
        for pool_id in document['pools']:
            if not tokens_.is_proxied(document, pool_id):
                _drop_duplicates(document, pool_id, decisions)
    return decisions


def _drop_duplicates(document: spec.Document, pool_id: str,
                     decisions: dict[str, Decision]) -> None:
    """Keep one of the members whose packets would go to the same address and
    port, as a VM's answers do not show which member they belong to.

    With VIPs of both IP versions, the IPv4 and the IPv6 address of one VM are
    such members.
    """
    members = document['pools'][pool_id]['members']
    taken: dict[tuple[str, str, int], str] = {}
    for key in sorted(members, key=lambda key: (
            'tunnel' not in members[key], key)):
        port, member = decisions[key].port, members[key]
        if decisions[key].way != TUNNEL or port is None:
            continue
        names = {(port.id, target.address, member['protocol_port'])
                 for vip in spec.vips(document) if isinstance(
                     target := port_documents.fixed(port, vip),
                     findings.Fixed)}
        other = next((taken[name] for name in names if name in taken), None)
        if other is not None:
            decisions[key] = _without(document, pool_id, member, (
                f'it is the same server as member {other}, which has the VIPs '
                'of both IP versions already: remove one of them'))
            continue
        taken.update((name, members[key]['address']) for name in names)


def _decide(document: spec.Document, pool_id: str, key: str, seen: Seen,
            ends: ends_.Ends, is_silent: Callable[[str], bool],
            tokens: tokens_.Tokens) -> Decision:
    pool = document['pools'][pool_id]
    member = pool['members'][key]
    if tokens_.is_proxied(document, pool_id) and (
            problem := tokens.problem(member['address'])):
        return _without(document, pool_id, member, problem)
    own = zero_touch.member_problem(document, pool, member)
    if own:
        return _without(document, pool_id, member, own[1][0])
    finding = seen.get(wanted(document, member))
    if finding is None:
        return Decision(WAITING, 'it was not looked up in Neutron yet')
    port = finding.port
    if finding.obstacle is not None or port is None or port.host is None:
        if 'tunnel' in member and finding.obstacle in PASSING:
            return Decision(WAITING, f'its tunnel stays, but '
                            f'{finding.reason}')
        return _without(document, pool_id, member, finding.reason)
    end = ends.get(port.host)
    if 'tunnel' in member and isinstance(end, ends_.Shared):
        return Decision(WAITING, f'its tunnel stays, but {end}')
    reason = (_port_problem(document, pool_id, member, port, tokens)
              or _host_problem(port.host, ends))
    if not reason and 'tunnel' not in member and is_silent(port.host):
        reason = f'the agent of hypervisor {port.host} does not report'
    if reason:
        return _without(document, pool_id, member, reason)
    hosts = [port.host]
    if port.migrating_to not in (None, port.host) and isinstance(
            ends.get(port.migrating_to or ''), ends_.End):
        hosts.append(str(port.migrating_to))
    return Decision(TUNNEL, '', tuple(hosts), port)


def _port_problem(document: spec.Document, pool_id: str, member: spec.Member,
                  port: findings.Port, tokens: tokens_.Tokens) -> str:
    if port.mtu < fields.INNER_MTU_MIN:
        return (f'the MTU of its network is {port.mtu}, less than '
                f'{fields.INNER_MTU_MIN}')
    is_proxied = tokens_.is_proxied(document, pool_id)
    for vip in [member['address']] if is_proxied else spec.vips(document):
        target = port_documents.fixed(port, vip)
        if isinstance(target, str):
            return target
    number = len(port_documents.rules(port,
                                      zero_touch.vip_versions(document)))
    number += len(tokens.sources) if is_proxied else 0
    if port.security_enabled and number > host_spec.RULES_MAX:
        return (f'its port has {number} rules, and a hypervisor supports '
                f'{host_spec.RULES_MAX}')
    return ''


def _host_problem(host: str, ends: ends_.Ends) -> str:
    end = ends.get(host)
    if end is None:
        return (f'no agent is registered for hypervisor {host} '
                '("octavia-xdp-manage host create")')
    return end if isinstance(end, str) else ''


def close(document: spec.Document, decisions: dict[str, Decision],
          policy: address_policy.AddressPolicy) -> None:
    """Turn DIRECT into NONE for addresses that LB nodes must not send to, as
    another server may have such an address."""
    for pool in document['pools'].values():
        for key, member in pool['members'].items():
            if decisions[key].way == DIRECT and policy.is_for_vms_alone(
                    member['address']):
                decisions[key] = Decision(NONE, (
                    f'{decisions[key].reason}; and LB nodes do not send to '
                    'its address, which may be another server\'s: it is '
                    'outside of [members] allowed_networks'))


def without(document: spec.Document, member_id: str, reason: str) -> Decision:
    """Return the Decision on a member that has no tunnel for a reason."""
    for pool_id, pool in document['pools'].items():
        if member_id in pool['members']:
            return _without(document, pool_id, pool['members'][member_id],
                            reason)
    return Decision(NONE, reason)


def _without(document: spec.Document, pool_id: str, member: spec.Member,
             reason: str) -> Decision:
    if flavor.value(document['flavor'], 'zero_touch') == 'required':
        return Decision(NONE, reason)
    if tokens_.is_proxied(document, pool_id):
        return Decision(DIRECT, reason)
    if flavor.value(document['flavor'], 'member_port') == 'same':
        for key in listeners(document, pool_id):
            port = document['listeners'][key]['protocol_port']
            if port != member['protocol_port']:
                return Decision(NONE, (
                    f'{reason}; and it cannot be reached at its address, '
                    f'where nothing writes its port {member["protocol_port"]} '
                    f'in place of the listener\'s {port}'))
    return Decision(DIRECT, reason)
