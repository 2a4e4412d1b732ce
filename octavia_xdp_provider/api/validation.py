# SPDX-License-Identifier: Apache-2.0
"""Which documents and changes are supported: one check for all processes.

The driver checks each change before it sends it, the controller the resulting
document before it stores it, and a node the document before it applies it. All
refuse with the same text: the path of the field, what is wrong with it, and
what to do instead.

Features of the API that this provider lacks are in ``driver/support.py``;
rules that span objects are in ``rules.py``.
"""

from collections.abc import Iterator
from typing import Any
from typing import cast

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.api import rules
from octavia_xdp_provider.api import zero_touch
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import l7_types
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.contracts import views

_DOCUMENT = shape.Shape(spec.Document)
_CHANGE = shape.Shape(changes.Change)

# Fields of a member that a change may have.
_MEMBER: Any = shape.partial(spec.Member, without=(
    'tunnel', 'way', 'token', 'leaving'))
_HEALTH_MONITOR: Any = shape.partial(spec.HealthMonitor)
_L7_RULE: Any = shape.partial(l7_types.Rule)
_L7_POLICY: Any = shape.partial(l7_types.Policy, rules=shape.by_id(_L7_RULE))
_LISTENER: Any = shape.partial(spec.Listener,
                               l7policies=shape.by_id(_L7_POLICY))


def _pool(member: Any) -> Any:
    return shape.partial(
        spec.Pool, without=('proxies',), members=shape.by_id(member),
        healthmonitor=_HEALTH_MONITOR,
        session_persistence=shape.partial(spec.SessionPersistence))


def _load_balancer(pool: Any, without: tuple[str, ...] = ()) -> Any:
    return shape.partial(spec.Document, without=without,
                         listeners=shape.by_id(_LISTENER),
                         pools=shape.by_id(pool))


_POOL: Any = _pool(_MEMBER)
_OLDER_DOCUMENT = shape.Shape(
    _load_balancer(_pool(shape.partial(spec.Member))))
_FIELDS = {'loadbalancer': shape.Shape(_load_balancer(
               _POOL, ('announcing', 'proxies', 'moved'))),
           'listener': shape.Shape(_LISTENER), 'pool': shape.Shape(_POOL),
           'member': shape.Shape(_MEMBER),
           'healthmonitor': shape.Shape(_HEALTH_MONITOR),
           'l7policy': shape.Shape(_L7_POLICY),
           'l7rule': shape.Shape(_L7_RULE)}


def read(given: object, policy: address_policy.AddressPolicy | None = None
         ) -> spec.Document:
    """Check and complete a document that LB nodes are sent.

    :raises Refused: the document is malformed, is not supported, has a newer
        version, whose fields would be ignored, or a listener that LB nodes
        cannot serve as it asks.
    """
    document = shape.check_version(given, spec.VERSION, _DOCUMENT)
    if document['version'] < spec.VERSION:
        _OLDER_DOCUMENT.check(document)
        if not isinstance(document.get('id'), str):
            raise errors.Refused('id', 'it is missing', 'give it')
        document = cast(spec.Fields, spec.complete(document))
    complete = cast(spec.Document, document)
    _DOCUMENT.check(complete)
    for name, value in tiers.causes(complete):
        raise errors.Refused(name, f'{value} is for proxy nodes to serve',
                             'send LB nodes their own view of the document')
    validate(complete, policy)
    return complete


def check_change(change: changes.Change,
                 policy: address_policy.AddressPolicy | None = None) -> None:
    """Check the form of a change and the values of its fields.

    :raises Refused: names the field.
    """
    _CHANGE.check(change)
    fields = _FIELDS[change['object']]
    _need(change, changes.PARENTS.get(change['object'], 'load_balancer_id'))
    if change['action'] in ('create', 'update'):
        _need(change, 'fields')
        fields.check(change['fields'])
    if change['action'] == 'replace':
        _need(change, 'members')
    elif change['object_id'] is None:
        raise errors.Refused('object_id', 'it is missing', 'give it')
    for key, member in change.get('members', {}).items():
        _FIELDS['member'].check(member, f'members.{key}')
    for key, pool in change.get('pools', {}).items():
        _FIELDS['pool'].check(pool, f'pools.{key}')
    if policy:
        for path, problem in _change_problems(change, policy):
            raise errors.Refused(path, *problem)


def _need(change: changes.Change, name: str) -> None:
    if name not in change:
        raise errors.Refused(
            name, f'{change["action"]} of a {change["object"]} lacks it',
            'give it')


def _change_problems(change: changes.Change,
                     policy: address_policy.AddressPolicy
                     ) -> Iterator[tuple[str, errors.Detailed]]:
    """Yield problems of addresses that the operator does not allow."""
    fields = change.get('fields', {})
    if change['object'] == 'loadbalancer':
        yield from vip_problems(fields, policy)
    pools = {**(fields.get('pools') or {}), **change.get('pools', {})}
    members = {f'pools.{pool_id}.members.{key}.': member
               for pool_id, pool in pools.items()
               for key, member in (pool.get('members') or {}).items()}
    members.update((f'members.{key}.', member) for key, member in {
        **change.get('members', {}),
        **(fields.get('members') or {})}.items())
    if change['object'] == 'member':
        members[''] = fields
    # Only controllers know the flavor of an existing load balancer.
    may_be_vms = change['object'] != 'loadbalancer' or _is_zero_touch(fields)
    for path, member in members.items():
        for name, problem in _member_problems(member, policy, may_be_vms):
            yield f'{path}{name}', problem


def _is_zero_touch(load_balancer: spec.Fields) -> bool:
    return bool(flavor.value(load_balancer.get('flavor') or {}, 'zero_touch')
                != 'off')


def vip_problems(fields: spec.Fields, policy: address_policy.AddressPolicy
                 ) -> Iterator[tuple[str, errors.Detailed]]:
    """Yield problems of VIPs that the operator does not allow.

    :param fields: of a load balancer; addresses that Neutron has yet to
        choose are missing.
    """
    if fields.get('vip_address'):
        problem = policy.vip_problem(fields['vip_address'])
        if problem:
            yield 'vip_address', problem
    if fields.get('vip_subnet_id') or fields.get('vip_network_id'):
        problem = policy.vip_origin_problem(fields.get('vip_subnet_id'),
                                            fields.get('vip_network_id'))
        if problem:
            yield 'vip_subnet_id', problem
    for vip in fields.get('additional_vips') or ():
        # All VIPs of a load balancer are on one network.
        problem = (vip.get('ip_address')
                   and policy.vip_problem(vip['ip_address'])
                   ) or policy.vip_origin_problem(
                       vip.get('subnet_id'), vip.get('network_id')
                       or fields.get('vip_network_id'))
        if problem:
            yield 'additional_vips', problem


def _member_problems(member: Any, policy: address_policy.AddressPolicy,
                     is_vm: bool = False
                     ) -> Iterator[tuple[str, errors.Detailed]]:
    """:param is_vm: whether the member may be behind a hypervisor; a separate
        address at which it is probed is not.
    """
    own = member.get('address')
    for name in ('address', 'monitor_address'):
        if member.get(name):
            problem = policy.member_problem(
                member[name], is_vm and own in (None, member[name]))
            if problem:
                yield name, problem


def check_new_members(before: spec.Document | None, after: spec.Document,
                      policy: address_policy.AddressPolicy) -> frozenset[str]:
    """Check the member addresses that a change adds. Existing ones are kept,
    even if the operator no longer allows them. Check as well whether proxy
    nodes can reach members as the flavor requires.

    :returns: addresses of added members to which LB nodes never send.
    :raises Refused: names the field.
    """
    known = {} if before is None else {
        key: member for pool in before['pools'].values()
        for key, member in pool['members'].items()}
    if not policy.has_tokens:
        zero_touch.check_proxied(after)
    is_vm = spec.is_zero_touch(after)
    unused = set()
    for pool in after['pools'].values():
        for key, member in pool['members'].items():
            old: Any = known.get(key, {})
            if (old.get('address') == member['address'] and
                    old.get('monitor_address') == member['monitor_address']):
                continue
            for name, problem in _member_problems(member, policy, is_vm):
                if old.get(name) != cast(Any, member)[name]:
                    raise errors.Refused(name, *problem)
            if is_vm and policy.is_for_vms_alone(member['address']):
                unused.add(member['address'])
    return frozenset(unused)


def validate(doc: spec.Document,
             policy: address_policy.AddressPolicy | None = None) -> None:
    """Check a document.

    :param policy: which addresses may be VIPs, and destinations of members'
        packets and probes.
    :raises Refused: names the field, or the option that breaks a rule.
    """
    _DOCUMENT.check(doc)
    if policy:
        _check_addresses(doc, policy)
    rules.check(_for_datapath(doc))
    if tiers.needs_proxies(doc):
        rules.check_proxied(doc)
        proxied.check(views.for_proxy(doc))


def _for_datapath(doc: spec.Document) -> spec.Document:
    """Return a document without what proxy nodes serve, or would serve."""
    listeners = {key: listener for key, listener in doc['listeners'].items()
                 if not tiers.cause(doc, listener)}
    used = tiers.pool_ids(doc, proxied=False)
    proxied_pools = tiers.pool_ids(doc, proxied=True)
    return {**doc, 'listeners': listeners, 'pools': {
        key: pool for key, pool in doc['pools'].items()
        if key in used or (key not in proxied_pools
                           and not tiers.pool_cause(doc, pool))}}


def _check_addresses(doc: spec.Document,
                     policy: address_policy.AddressPolicy) -> None:
    """Check the addresses of VIPs and used members, but not the VIPs'
    subnets, which the driver checks at creation."""
    for name, address in (
            ('vip_address', doc['vip_address']),
            *(('additional_vips', vip['ip_address'])
              for vip in doc['additional_vips'])):
        problem = policy.vip_problem(address)
        if problem:
            raise errors.Refused(name, *problem)
    for _listener_id, _listener, pool in spec.forwarded(doc):
        for member in pool['members'].values():
            for name, problem in _used_problems(member, policy):
                raise errors.Refused(name, *problem)


def _used_problems(member: spec.Member,
                   policy: address_policy.AddressPolicy
                   ) -> Iterator[tuple[str, errors.Detailed]]:
    """Yield problems of the addresses that a member's packets and probes go
    to. If it has a tunnel, that is the tunnel's end, also for probes of its
    own address."""
    if 'tunnel' not in member:
        yield from _member_problems(member, policy)
        return
    problem = policy.member_problem(member['tunnel']['address'])
    if problem:
        yield 'tunnel.address', problem
    if member['monitor_address'] != member['address']:
        yield from _member_problems(
            {'monitor_address': member['monitor_address']}, policy)
