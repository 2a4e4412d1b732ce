# SPDX-License-Identifier: Apache-2.0
"""Whether nodes can serve a load balancer, according to their reports.

A node reports the sizes of its tables and its own addresses. What it would
refuse is already refused when the API is called, while the tenant can correct
it. The needs of a load balancer are stored with it, for the larger of its
document and its pending one. Sums over a node's load balancers are computed
only if the node's own report does not show plenty of room.
"""

from collections.abc import Iterable
import dataclasses
import functools
import ipaddress
import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.api import nat
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.store import limits
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import proxy_capacity
from octavia_xdp_provider.controller.store import rows

_NODE: dict[str, str] = {rows.LB: 'the LB node', rows.PROXY: 'the proxy node'}

# A node's own number, which lacks changes that it has yet to apply, suffices
# if at most half of the table is used and this many entries are free.
_PLENTY = 0.5
_ROOM = 64
# Proxy nodes that are at least allowed for in each proxied listener: as many
# as [placement] replicas has by default.
_PROXIES_MIN = 2


@dataclasses.dataclass(frozen=True)
class Need:
    """Entries of a node's tables, and the number of members of all pools, of
    which some may take no entry."""

    services: int = 0
    members: int = 0
    all_members: int = 0

    def most(self, other: 'Need') -> 'Need':
        return Need(max(self.services, other.services),
                    max(self.members, other.members),
                    max(self.all_members, other.all_members))

    def beyond(self, other: 'Need') -> 'Need':
        return Need(max(0, self.services - other.services),
                    max(0, self.members - other.members))


def need(document: spec.Document | None) -> Need:
    """Return the most that a load balancer can take on an LB node: with all
    its objects enabled. Proxy nodes are the members of proxied listeners."""
    if document is None:
        return Need()
    vips = len(spec.vips(document))
    proxies = max(document['flavor'].get('replicas', _PROXIES_MIN),
                  len(document.get('proxies', {'nodes': {}})['nodes']))
    return Need(vips * len(document['listeners']), vips * sum(
        proxies if tiers.cause(document, listener)
        else sum(len(pool['members'])
                 for pool in spec.pools_of(document, listener))
        for listener in document['listeners'].values()),
        limits.members(document))


def text_of(document: spec.Document) -> str:
    """Return a document as text for the database."""
    return json.dumps(document, sort_keys=True)


@dataclasses.dataclass(frozen=True)
class _Reported:
    """The relevant part of a node's reported state.

    ``routers``: next hops and BGP neighbours. ``nat``: for api/nat.py.
    ``registered``: the addresses of a proxy node, which it does not report.
    """

    numbers: dict[str, int]
    addresses: frozenset[str]
    routers: frozenset[str]
    nat: dict[str, Any]
    registered: frozenset[str]


@functools.lru_cache(maxsize=1024)
def _reported(text: str, pools: tuple[str, ...],
              addresses: tuple[str, ...]) -> _Reported:
    """:param pools: registered pools for NAT.

    :param addresses: registered addresses of a proxy node.
    """
    state = nat.registered(json.loads(text), pools)
    return _Reported(
        {name: state[name] for name in (
            'services', 'services_max', 'members', 'members_max')
         if isinstance(state.get(name), int)},
        frozenset(map(str, state.get('addresses') or ())),
        _routers(state),
        {name: state[name] for name in ('document_version', 'nat')
         if name in state}, frozenset(addresses))


def _routers(state: dict[str, Any]) -> frozenset[str]:
    """Return at most NODE_ADDRESSES_MAX addresses: otherwise a compromised
    node could keep more of them from tenants."""
    addresses = {*(state.get('bgp_neighbours') or ()), *(
        hop.get('address') for uplink in state.get('uplinks') or ()
        for hop in (uplink.get('v4') or {}, uplink.get('v6') or {}))}
    return frozenset(sorted(filter(None, map(_canonical, addresses)))[
        :messages.NODE_ADDRESSES_MAX])


def _canonical(text: str | None) -> str | None:
    try:
        return str(ipaddress.ip_address(text or ''))
    except ValueError:
        return None


def account(session: Any, load_balancer_id: str,
            documents: Iterable[spec.Document]) -> None:
    """Store the needs of a load balancer on each of its nodes, and its
    size."""
    documents = list(documents)
    needs = functools.reduce(Need.most, map(need, documents), Need())
    row = session.get(models.Usage, load_balancer_id)
    if row is None:
        row = models.Usage(load_balancer_id=load_balancer_id)
        session.add(row)
    row.services, row.members = needs.services, needs.members
    row.all_members = needs.all_members
    row.bytes = max((limits.in_steps(len(text_of(document)))
                     for document in documents), default=0)
    for document in documents:
        row.project_id = document.get('project_id')


def check_nodes(session: orm.Session, before: spec.Document | None,
                after: spec.Document,
                unused: frozenset[str] = frozenset()) -> None:
    """:param unused: addresses of members to which nodes never send.
    :raises Refused: a node has no room for what is new, or owns a new
    address; or no node can serve it."""
    new_vips = set(spec.vips(after)) - set(spec.vips(before) if before else ())
    new = spec.member_addresses(after) - (
        spec.member_addresses(before) if before else set()) - unused
    more = need(after).beyond(need(before))
    is_nat = flavor.is_nat(after['flavor'])
    is_proxied = tiers.needs_proxies(after)
    if not (new or new_vips or more.services or more.members
            or (is_nat and before is None) or is_proxied):
        return
    nodes = session.query(
        models.Node.host, models.Node.in_service, models.Node.state,
        models.Node.nat_pools, models.Node.role,
        models.Node.proxy_addresses).order_by(models.Node.host).all()
    _check_pools(nodes, new)
    reported = {row.host: _reported(row.state, tuple(rows.nat_pools(row)),
                                    tuple(rows.proxy_addresses(row)))
                for row in nodes}
    _check_vips_of_nodes(nodes, reported, after, new_vips)
    _check_members_of_nodes(nodes, reported, new)
    states, proxies = ({row.host: reported[row.host] for row in nodes
                        if row.in_service and row.role == role}
                       for role in rows.ROLES)
    if is_proxied:
        proxy_capacity.check(
            before, after, {host: state.numbers
                            for host, state in proxies.items()},
            _placed(session, after, rows.PROXY))
    if is_nat:
        _check_nat(states, after)
    if not (more.services or more.members) or not states:
        return
    placed = _placed(session, after, rows.LB)
    full = [_missing_room(session, host, states[host].numbers, more)
            for host in placed or states if host in states]
    lacks = [text for text in full if text]
    # A new load balancer needs any node, a placed one all of its nodes.
    if lacks and (placed or len(lacks) == len(full)):
        raise errors.Refused(
            'listeners', 'the LB nodes have no room for it',
            'use fewer listeners or members, or another load balancer, '
            'or ask the operator for more LB nodes', lacks[0])


def _placed(session: orm.Session, document: spec.Document, role: rows.Role
            ) -> list[str]:
    return [host for host, in session.query(models.Placement.host).filter_by(
        load_balancer_id=document['id'], removed_generation=None, role=role)]


def _check_members_of_nodes(nodes: Iterable[Any],
                            reported: dict[str, _Reported],
                            addresses: set[str]) -> None:
    """:raises Refused: an address is reported by a node in service, or
    registered for a proxy node."""
    for row in nodes:
        state = reported[row.host]
        taken = state.registered | (state.addresses if row.in_service
                                    else frozenset())
        for address in sorted(addresses & taken):
            raise errors.Refused('address', *address_policy.closed(
                address, f'it is an address of {_NODE[row.role]} {row.host}'))


def _check_vips_of_nodes(nodes: Iterable[Any], reported: dict[str, _Reported],
                         after: spec.Document, vips: Iterable[str]) -> None:
    """:raises Refused: a VIP is an address of a node or of its routers,
    even if the node is out of service."""
    for address in sorted(vips):
        option = ('vip_address' if address == spec.vips(after)[0]
                  else 'additional_vips')
        for row in nodes:
            state = reported[row.host]
            for addresses, what in (
                    (state.addresses | state.registered, 'an address'),
                    (state.routers, 'a next hop or BGP neighbour')):
                if address in addresses:
                    raise errors.Refused(option, *address_policy.taken(
                        address, f'it is {what} of {_NODE[row.role]} '
                        f'{row.host}'))


def _check_pools(nodes: Iterable[Any], addresses: Iterable[str]) -> None:
    """:raises Refused: an address is in a node's registered NAT pools,
    even if the node does not report them."""
    pools = [(row.host, ipaddress.ip_network(text)) for row in nodes
             for text in rows.nat_pools(row)]
    for address in sorted(addresses) if pools else ():
        for host, pool in pools:
            if ipaddress.ip_address(address) in pool:
                raise errors.Refused('address', *address_policy.closed(
                    address, f'it lies in {pool}, a pool for NAT of the '
                    f'LB node {host}'))


def _check_nat(states: dict[str, _Reported], after: spec.Document) -> None:
    """:raises Refused: no node can reach the members by NAT."""
    problems = {host: nat.node_problem(state.nat, after)
                for host, state in states.items()}
    if problems and all(problems.values()):
        host, problem = min(problems.items())
        versions = ' and '.join(f'IPv{version}' for version
                                in nat.versions(after))
        raise errors.Refused(
            'flavor', f'no LB node can reach {versions or "any"} members '
            'with forwarding nat', 'use another flavor, or ask the '
            'operator for LB nodes that can', f'of {host}: {problem}')


def _missing_room(session: orm.Session, host: str, numbers: dict[str, int],
                  more: Need) -> str | None:
    """Return what a node has no room for, or None."""
    wanted = dataclasses.asdict(more)
    near = {name: number for name, number in wanted.items()
            if number and f'{name}_max' in numbers
            and numbers.get(name, 0) + number
            > min(_PLENTY * numbers[f'{name}_max'],
                  numbers[f'{name}_max'] - _ROOM)}
    if not near:
        return None
    sums = session.query(
        sa.func.sum(models.Usage.services),
        sa.func.sum(models.Usage.members)).join(
            models.Placement, models.Placement.load_balancer_id
            == models.Usage.load_balancer_id).filter(
                models.Placement.host == host,
                models.Placement.removed_generation.is_(None)).one()
    used = dict(zip(('services', 'members'), sums, strict=True))
    for name, number in near.items():
        most = numbers[f'{name}_max']
        if int(used[name] or 0) + number > most:
            return (f'{host} has {int(used[name] or 0)} of {most} {name} '
                    f'and {number} more are needed')
    return None
