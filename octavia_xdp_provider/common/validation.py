# SPDX-License-Identifier: Apache-2.0
"""Which documents and changes can be done: one check for all processes.

The driver checks each change before it is sent, the controller the document
that follows from it before it is stored, and a node the document before it
does anything. All say no with the same words: the field, by its path; what
is wrong with it; and what would be right.

What the API has, and this provider does not, is ``driver/support.py``'s.
"""

from collections.abc import Iterator
import ipaddress
from typing import Any
from typing import cast

from octavia_xdp_provider.common import address_policy
from octavia_xdp_provider.common import changes
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import persistence
from octavia_xdp_provider.common import shape
from octavia_xdp_provider.common import spec

# A table of the datapath addresses its members by this many indices
# (OXP_MEMBERS_MAX in datapath/include/octavia_xdp.h).
MEMBERS_MAX = 256

# The part of a member's address that an SRv6 function takes the place of.
_FUNCTION_BITS = 16

_DOCUMENT = shape.Shape(spec.Document)
_CHANGE = shape.Shape(changes.Change)

_MEMBER: Any = shape.partial(spec.Member)
_HEALTH_MONITOR: Any = shape.partial(spec.HealthMonitor)
_LISTENER: Any = shape.partial(spec.Listener)
_POOL: Any = shape.partial(
    spec.Pool, members=shape.by_id(_MEMBER), healthmonitor=_HEALTH_MONITOR,
    session_persistence=shape.partial(spec.SessionPersistence))
_LOAD_BALANCER = shape.partial(
    spec.Document, listeners=shape.by_id(_LISTENER),
    pools=shape.by_id(_POOL))
_OLDER_DOCUMENT = shape.Shape(_LOAD_BALANCER)
_FIELDS = {'loadbalancer': _OLDER_DOCUMENT,
           'listener': shape.Shape(_LISTENER), 'pool': shape.Shape(_POOL),
           'member': shape.Shape(_MEMBER),
           'healthmonitor': shape.Shape(_HEALTH_MONITOR)}


def read(given: object, policy: address_policy.AddressPolicy | None = None
         ) -> spec.Document:
    """A document that another process or version wrote, complete.

    :raises Refused: it is malformed, cannot be done, or is of a newer
        version, whose fields would be ignored.
    """
    if not isinstance(given, dict):
        raise errors.Refused('document', f'it is a {type(given).__name__}',
                             'send a JSON object')
    version = given.get('version')
    if type(version) is not int or version < 1:
        raise errors.Refused('version', f'the value {version!r} is none',
                             f'use {spec.VERSION}')
    if version > spec.VERSION:
        unknown = ', '.join(_DOCUMENT.unknown_fields(given)) or 'none'
        raise errors.Refused(
            'version', f'{version} is newer than {spec.VERSION}, the newest '
            f'that is known here; fields that are not known: {unknown}',
            'upgrade this process')
    if version < spec.VERSION:
        _OLDER_DOCUMENT.check(given)
        if not isinstance(given.get('id'), str):
            raise errors.Refused('id', 'it is missing', 'give it')
        given = cast(dict[str, Any], spec.complete(given))
    document = cast(spec.Document, given)
    validate(document, policy)
    return document


def check_change(change: changes.Change,
                 policy: address_policy.AddressPolicy | None = None) -> None:
    """Check a change by itself: its form and the values of its fields.

    :raises Refused: names the field.
    """
    _CHANGE.check(change)
    fields = _FIELDS[change['object']]
    if change['object'] in ('member', 'healthmonitor'):
        _need(change, 'pool_id')
    else:
        _need(change, 'load_balancer_id')
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
                     ) -> Iterator[tuple[str, errors.Problem]]:
    """Addresses of a change that the operator does not allow."""
    fields = change.get('fields', {})
    if fields.get('vip_address'):
        problem = policy.vip_problem(fields['vip_address'])
        if problem:
            yield 'vip_address', problem
    pools = {**(fields.get('pools') or {}), **change.get('pools', {})}
    members = {f'pools.{pool_id}.members.{key}.': member
               for pool_id, pool in pools.items()
               for key, member in (pool.get('members') or {}).items()}
    members.update((f'members.{key}.', member) for key, member in {
        **change.get('members', {}),
        **(fields.get('members') or {})}.items())
    if change['object'] == 'member':
        members[''] = fields
    for path, member in members.items():
        for name, problem in _member_problems(member, policy):
            yield f'{path}{name}', problem


def _member_problems(member: Any, policy: address_policy.AddressPolicy
                     ) -> Iterator[tuple[str, errors.Problem]]:
    for name in ('address', 'monitor_address'):
        if member.get(name):
            problem = policy.member_problem(member[name])
            if problem:
                yield name, problem


def validate(doc: spec.Document,
             policy: address_policy.AddressPolicy | None = None) -> None:
    """Check a document.

    :param policy: which addresses may be used; of members those that
        packets or probes would go to.
    :raises Refused: names the field, or the option that breaks a rule.
    """
    _DOCUMENT.check(doc)
    if policy:
        _check_addresses(doc, policy)
    vip = ipaddress.ip_address(doc['vip_address'])
    for pool in doc['pools'].values():
        _pool(doc, vip, pool)
    for listener in doc['listeners'].values():
        _allowed_cidrs(vip, listener)
        for pool in spec.pools_of(doc, listener):
            _same_protocol(listener, pool)
            _addresses(doc, pool)
            if flavor.value(doc['flavor'], 'member_port') == 'same':
                _same_ports(listener, pool)
    if flavor.value(doc['flavor'], 'member_port') == 'rewrite':
        _answers_name_their_listener(doc)


def _check_addresses(doc: spec.Document,
                     policy: address_policy.AddressPolicy) -> None:
    problem = policy.vip_problem(doc['vip_address'])
    if problem:
        raise errors.Refused('vip_address', *problem)
    for _listener_id, _listener, pool in spec.forwarded(doc):
        for member in pool['members'].values():
            for name, problem in _member_problems(member, policy):
                raise errors.Refused(name, *problem)


def _same_protocol(listener: spec.Listener, pool: spec.Pool) -> None:
    if pool['protocol'] != listener['protocol']:
        raise errors.Refused(
            'protocol', f'a {listener["protocol"]} listener cannot use a '
            f'{pool["protocol"]} pool, packets are forwarded as they are',
            'give both the same protocol')


def concerns_others(doc: spec.Document) -> bool:
    """Whether ``validate_together`` can say anything about a document."""
    return 'dscp' in doc['flavor']


def validate_together(doc: spec.Document, other: spec.Document) -> None:
    """Check a document against another load balancer's.

    With encapsulation dscp nothing but the DSCP shows a member which VIP a
    packet was for.

    :raises Refused: a member could not distinguish the two VIPs.
    """
    code = doc['flavor'].get('dscp')
    if code is None or code != other['flavor'].get('dscp'):
        return
    shared = _member_addresses(doc) & _member_addresses(other)
    if shared:
        raise errors.Refused(
            'address', f'{min(shared)} is a member of another load balancer '
            f'whose packets have DSCP {code} as well, and could not '
            'distinguish the two VIPs', 'use a flavor with another DSCP')


def _member_addresses(doc: spec.Document) -> set[str]:
    return {member['address'] for pool in doc['pools'].values()
            for member in pool['members'].values()}


def _pool(doc: spec.Document, vip: address_policy.Address,
          pool: spec.Pool) -> None:
    if len(pool['members']) > MEMBERS_MAX:
        raise errors.Refused(
            'members', f'a pool holds at most {MEMBERS_MAX} members',
            'split the pool over several load balancers')
    encapsulation = flavor.value(doc['flavor'], 'encapsulation')
    for member in pool['members'].values():
        address = ipaddress.ip_address(member['address'])
        if address == vip:
            raise errors.Refused(
                'address', f'{address} is the VIP itself',
                'use the member\'s own address')
        if encapsulation == 'srv6' and address.version != 6:
            raise errors.Refused(
                'address', f'{address} is no IPv6 address, and the load '
                'balancer\'s flavor sends packets to SRv6 SIDs',
                'use the member\'s SID as its address, or a load balancer '
                'with another flavor')
        if encapsulation == 'dscp' and address.version != vip.version:
            raise errors.Refused(
                'address', f'{address} is not of the VIP\'s family, and the '
                'load balancer\'s flavor rewrites addresses (encapsulation '
                'dscp)', f'use an IPv{vip.version} address, or a load '
                'balancer with another flavor')
    _persistence(vip, pool['session_persistence'])


def _persistence(vip: address_policy.Address,
                 given: spec.SessionPersistence | None) -> None:
    if given is None:
        return
    if given['type'] is None:
        raise errors.Refused(
            'session_persistence', 'it has no type', 'use type SOURCE_IP')
    granularity = given['persistence_granularity']
    if granularity is None:
        return
    version, _length = persistence.prefix(granularity)
    if version != vip.version:
        raise errors.Refused(
            'session_persistence', f'persistence_granularity {granularity} '
            f'is an IPv{version} netmask and clients of the VIP {vip} have '
            f'IPv{vip.version} addresses',
            f'use an IPv{vip.version} netmask')


def _allowed_cidrs(vip: address_policy.Address,
                   listener: spec.Listener) -> None:
    for text in listener['allowed_cidrs'] or ():
        version = ipaddress.ip_network(text).version
        if version != vip.version:
            raise errors.Refused(
                'allowed_cidrs', f'{text} is an IPv{version} network and '
                f'clients of the VIP {vip} have IPv{vip.version} addresses',
                f'use IPv{vip.version} networks')


def _addresses(doc: spec.Document, pool: spec.Pool) -> None:
    """Within a service, members are distinguished by where packets go."""
    function = flavor.value(doc['flavor'], 'srv6_function')
    seen: dict[tuple[int, int], address_policy.Address] = {}
    for member in pool['members'].values():
        address = ipaddress.ip_address(member['address'])
        target = int(address) >> (_FUNCTION_BITS if function else 0)
        key = (address.version, target)
        if seen.get(key) == address:
            raise errors.Refused(
                'address', f'two members of a pool have {address}',
                'add each address once and use weight for a larger share')
        if key in seen:
            raise errors.Refused(
                'address', f'{address} and {seen[key]} differ only in the '
                f'last {_FUNCTION_BITS} bits, of which the flavor\'s '
                'srv6_function takes the place: both would be one SID',
                'use addresses with different locators')
        seen[key] = address


def _same_ports(listener: spec.Listener, pool: spec.Pool) -> None:
    for member in pool['members'].values():
        if member['protocol_port'] != listener['protocol_port']:
            raise errors.Refused(
                'protocol_port',
                f'member {member["address"]} has port '
                f'{member["protocol_port"]}, its listener '
                f'{listener["protocol_port"]}; members answer clients '
                'directly, so that nothing on the way can rewrite the port',
                'let the member listen on the listener\'s port, or use a '
                'flavor with member_port rewrite')


def _answers_name_their_listener(doc: spec.Document) -> None:
    """A member's answer carries the member's port only: it must show the
    listener's port."""
    listeners: dict[tuple[str, address_policy.Address, int], int] = {}
    for listener in doc['listeners'].values():
        for pool in spec.pools_of(doc, listener):
            for member in pool['members'].values():
                key = (listener['protocol'],
                       ipaddress.ip_address(member['address']),
                       member['protocol_port'])
                port = listeners.setdefault(key, listener['protocol_port'])
                if port != listener['protocol_port']:
                    raise errors.Refused(
                        'protocol_port', f'port {member["protocol_port"]} '
                        f'of {member["address"]} would serve the listeners '
                        f'on port {port} and {listener["protocol_port"]}, '
                        'and its answers do not show which one was asked',
                        'let the member listen on a port for each listener')
