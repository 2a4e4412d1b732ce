# SPDX-License-Identifier: Apache-2.0
"""The table of supported and refused options.

``SUPPORT`` names every attribute of every object that Octavia may hand to a
provider. An attribute that is missing here is refused as well, so that an
option of a newer Octavia is never silently ignored.
"""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses
import typing

from oslo_utils import uuidutils

from octavia_xdp_provider.api import connections
from octavia_xdp_provider.api import policy as policies
from octavia_xdp_provider.api import translate
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor as flavors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import zone as zones

L4_ONLY = ('this provider forwards packets and does not terminate '
           'connections')
USE_AMPHORA = 'use a provider that terminates connections, such as amphora'


_Policy = policies.ApiPolicy
_Problem = errors.Problem | errors.Detailed | None
# Returns the problem of an option's value, or None.
Check = Callable[[typing.Any, _Policy], _Problem]


@dataclasses.dataclass(frozen=True)
class Done:
    """A supported option, for the values that ``check`` accepts.

    ``beside`` describes what the controllers refuse in addition, which know
    more than the value.
    """

    check: Check | None = None
    beside: errors.Problem | None = None


@dataclasses.dataclass(frozen=True)
class Refuse:
    """A refused option, except for values that mean "not requested".

    ``default`` names an option in Octavia's [api_settings]. If a change sets
    the attribute to null, which requests the default, Octavia substitutes that
    option's value, whatever the listener's protocol. Horizon does so with each
    change.
    """

    why: str
    instead: str
    unless: tuple[object, ...] = (None, [], {}, '', False)
    default: str | None = None

    def is_default(self, value: typing.Any, policy: _Policy) -> bool:
        """Return whether the user did not request the option."""
        return value in self.unless or (
            self.default in policy.octavia_defaults
            and value == policy.octavia_defaults[self.default])


@dataclasses.dataclass(frozen=True)
class NoEffect:
    """An option that is accepted with any value and has no effect.

    For options that clients or Octavia itself always send, but that do not
    apply to a packet forwarder. ``why`` gives the reason.
    """

    why: str


Rule = Done | Refuse | NoEffect


def one_of(*values: str) -> Check:
    """Return a check that accepts the given values only."""
    def check(value: typing.Any, policy: _Policy) -> _Problem:
        if value in values:
            return None
        accepted = ' or '.join(str(item) for item in values)
        return f'the value {value!r} is not supported', f'use {accepted}'
    return check


def protocol(value: typing.Any, policy: _Policy) -> _Problem:
    if value in ('PROXY', 'PROXYV2'):
        return (f'the value {value!r} is not supported: the PROXY protocol\'s '
                'header is data at the beginning of a connection, and this '
                'provider forwards packets, whatever the flavor\'s '
                'forwarding, and cannot add to a connection',
                'use TCP, with forwarding tunnel if members are to see the '
                f'clients\' addresses, or {USE_AMPHORA}')
    if value in ('TCP', 'UDP', 'SCTP', 'HTTPS'):
        return None
    return (f'the value {value!r} is not supported: {L4_ONLY}',
            'use TCP, UDP or SCTP, which carry any protocol above them '
            'unchanged, or HTTPS, which members terminate, or '
            f'{USE_AMPHORA}')


def algorithm(value: typing.Any, policy: _Policy) -> _Problem:
    """Check the algorithm. Whether one may be replaced by the hash depends on
    the flavor, which api/rules.py checks with the whole load balancer."""
    if value in flavors.ALGORITHMS + flavors.ALGORITHMS_BY_HASH:
        return None
    return (f'the value {value!r} is not supported: every LB node picks a '
            'flow\'s member by a consistent hash of its addresses and ports, '
            'without shared state, so that nodes agree and flows stay',
            'use SOURCE_IP_PORT, which spreads flows by the members\' '
            'weights, or SOURCE_IP')


def session_persistence(value: typing.Any, policy: _Policy) -> _Problem:
    """Accept persistence by source address only: cookies are beyond a
    packet's headers."""
    if not value:
        return None
    kind = value.get('type')
    if kind not in (None, 'SOURCE_IP'):
        return (f'type {kind} needs cookies: {L4_ONLY}',
                f'use type SOURCE_IP, or {USE_AMPHORA}')
    for name, given in value.items():
        if (name not in spec.PERSISTENCE
                and given not in Refuse.unless):
            return (f'its {name} has no meaning with type SOURCE_IP',
                    'leave it out')
    timeout = value.get('persistence_timeout')
    lowest, highest = flavors.IDLE_TIMEOUT_MIN, flavors.IDLE_TIMEOUT_MAX
    if timeout is not None and not lowest <= timeout <= highest:
        return (f'its persistence_timeout is {timeout}',
                f'use {lowest} to {highest} seconds')
    granularity = value.get('persistence_granularity')
    problem = granularity and fields.netmask_problem(granularity)
    return problem and (f'its persistence_granularity {problem[0]}',
                        problem[1])


def vip(value: typing.Any, policy: _Policy) -> _Problem:
    """Refuse VIPs outside the operator's networks."""
    return None if value is None else policy.addresses.vip_problem(value)


def additional_vips(value: typing.Any, policy: _Policy) -> _Problem:
    """Check the addresses that are known; Neutron allocates the others."""
    for additional_vip in value or ():
        address = translate.attributes(additional_vip).get('ip_address')
        problem = address and policy.addresses.vip_problem(address)
        if problem:
            return problem
    return None


def subnet(value: typing.Any, policy: _Policy) -> _Problem:
    """Check a member's subnet id by its form only.

    Octavia checks for a member that is created by itself or in a batch that
    the subnet exists and is visible to the user. ``driver/subnets.py`` checks
    that it exists, and contains the address if the operator wants that.
    ``rules.subnet_problem`` checks its address family.
    """
    if value is None or uuidutils.is_uuid_like(value):
        return None
    return f'the value {value!r} is no UUID', 'use the id of a Neutron subnet'


def member_address(value: typing.Any, policy: _Policy) -> _Problem:
    """Refuse members in the operator's own networks.

    Addresses that are for VMs alone depend on the load balancer's flavor:
    ``api/validation.py`` checks them, here and in the controllers.
    """
    return None if value is None else policy.addresses.member_problem(
        value, is_vm=True)


def allowed_cidrs(value: typing.Any, policy: _Policy) -> _Problem:
    value = value or ()
    for text in value:
        problem = fields.network_problem(text, strict=False)
        if problem:
            return problem
    if len(value) > fields.ALLOWED_CIDRS_MAX:
        return (f'it has {len(value)} networks, more than '
                f'{fields.ALLOWED_CIDRS_MAX}', 'join neighbouring networks')
    return None


def connection_limit(value: typing.Any, policy: _Policy) -> _Problem:
    if value == 0:
        return ('a limit of 0 admits no connection',
                'use -1 (no limit), or a disabled listener')
    return None


def http_version(value: typing.Any, policy: _Policy) -> _Problem:
    return None if value is None else fields.http_version_problem(value)


def url_path(value: typing.Any, policy: _Policy) -> _Problem:
    return None if value is None else fields.url_path_problem(value)


def domain_name(value: typing.Any, policy: _Policy) -> _Problem:
    return None if value is None else fields.domain_name_problem(value)


def codes(value: typing.Any, policy: _Policy) -> _Problem:
    return None if value is None else fields.codes_problem(value)


def http_method(value: typing.Any, policy: _Policy) -> _Problem:
    """Refuse methods with effects: probes come from LB nodes, whose addresses
    a server may trust."""
    if value is None or value in policy.http_methods:
        return None
    return (f'the operator does not let health monitors use {value}, which '
            'may have effects on a server',
            f'use {" or ".join(policy.http_methods)}')


def seconds(value: typing.Any, policy: _Policy) -> _Problem:
    """Refuse intervals below a second."""
    if value is None or value >= 1:
        return None
    return f'the value {value} is not supported', 'use at least 1 second'


def flavor(value: typing.Any, policy: _Policy) -> _Problem:
    """Check flavor metadata as flavor profiles are checked."""
    return None if value is None else flavors.problem(value)


_TLS = Refuse(f'{L4_ONLY}, so it cannot do TLS', USE_AMPHORA)


def _tls_unless(default: str) -> Refuse:
    return Refuse(_TLS.why, _TLS.instead, default=default)


_HTTP = Refuse(f'{L4_ONLY}, so it cannot read or change HTTP', USE_AMPHORA)


def zone(value: typing.Any, policy: _Policy) -> _Problem:
    """Check zone metadata as availability zone profiles are checked."""
    return zones.problem(value) if value else None


SUPPORT: dict[str, dict[str, Rule]] = {
    'loadbalancer': {
        'loadbalancer_id': Done(), 'project_id': Done(), 'name': Done(),
        'description': Done(), 'admin_state_up': Done(),
        'vip_address': Done(vip), 'vip_network_id': Done(),
        'vip_port_id': Done(), 'vip_subnet_id': Done(),
        'flavor': Done(flavor), 'listeners': Done(), 'pools': Done(),
        'vip_qos_policy_id': Refuse(
            'the VIP is announced by LB nodes and its port is not plugged '
            'anywhere, so a QoS policy on it would have no effect',
            'shape traffic at the members\' ports'),
        'vip_sg_ids': Refuse(
            'the VIP is announced by LB nodes and its port is not plugged '
            'anywhere, so security groups on it would have no effect',
            'use allowed_cidrs of the listeners'),
        'additional_vips': Done(additional_vips),
        'availability_zone': Done(zone),
    },
    'listener': {
        'listener_id': Done(), 'loadbalancer_id': Done(),
        'project_id': Done(), 'name': Done(), 'description': Done(),
        'admin_state_up': Done(), 'protocol': Done(protocol),
        'protocol_port': Done(), 'default_pool': Done(),
        'default_pool_id': Done(),
        'connection_limit': Done(connection_limit, connections.ONLY_NAT),
        'allowed_cidrs': Done(allowed_cidrs),
        'timeout_client_data': Done(), 'timeout_member_data': Done(),
        'timeout_member_connect': NoEffect(
            'clients and members connect to each other'),
        'timeout_tcp_inspect': NoEffect(
            'packets are forwarded by their headers, without waiting for '
            'their content'),
        'insert_headers': _HTTP, 'l7policies': _HTTP,
        'default_tls_container_ref': _TLS,
        'default_tls_container_data': _TLS, 'sni_container_refs': _TLS,
        'sni_container_data': _TLS, 'client_ca_tls_container_ref': _TLS,
        'client_ca_tls_container_data': _TLS,
        'client_authentication': Refuse(
            _TLS.why, _TLS.instead, unless=(None, '', 'NONE')),
        'client_crl_container_ref': _TLS, 'client_crl_container_data': _TLS,
        'tls_versions': _tls_unless('default_listener_tls_versions'),
        'tls_ciphers': _tls_unless('default_listener_ciphers'),
        'alpn_protocols': _tls_unless('default_listener_alpn_protocols'),
        'hsts_max_age': _TLS, 'hsts_include_subdomains': _TLS,
        'hsts_preload': _TLS,
    },
    'pool': {
        'pool_id': Done(), 'loadbalancer_id': Done(), 'listener_id': Done(),
        'project_id': Done(), 'name': Done(), 'description': Done(),
        'admin_state_up': Done(), 'protocol': Done(protocol),
        'lb_algorithm': Done(algorithm), 'members': Done(),
        'healthmonitor': Done(),
        'session_persistence': Done(session_persistence),
        'tls_enabled': _TLS, 'tls_container_ref': _TLS,
        'tls_container_data': _TLS, 'ca_tls_container_ref': _TLS,
        'ca_tls_container_data': _TLS, 'crl_container_ref': _TLS,
        'crl_container_data': _TLS,
        'tls_versions': _tls_unless('default_pool_tls_versions'),
        'tls_ciphers': _tls_unless('default_pool_ciphers'),
        'alpn_protocols': _tls_unless('default_pool_alpn_protocols'),
    },
    'member': {
        'member_id': Done(), 'pool_id': Done(), 'project_id': Done(),
        'name': Done(), 'admin_state_up': Done(),
        'address': Done(member_address), 'protocol_port': Done(),
        'weight': Done(), 'subnet_id': Done(subnet),
        'monitor_address': Done(member_address), 'monitor_port': Done(),
        'backup': Done(),
        'vnic_type': Refuse(
            'members are reached by routing and no port is plugged for them',
            'use vnic_type normal', unless=(None, 'normal')),
    },
    'healthmonitor': {
        'healthmonitor_id': Done(), 'pool_id': Done(), 'project_id': Done(),
        'name': Done(), 'admin_state_up': Done(),
        'type': Done(one_of(*typing.get_args(fields.MonitorType))),
        'delay': Done(seconds),
        'timeout': Done(seconds), 'max_retries': Done(),
        'max_retries_down': Done(), 'http_method': Done(http_method),
        'url_path': Done(url_path), 'expected_codes': Done(codes),
        'http_version': Done(http_version),
        'domain_name': Done(domain_name),
    },
}


def check(kind: str, provider_object: typing.Any, policy: _Policy) -> None:
    """Check an object and its children against SUPPORT.

    :param kind: a key of SUPPORT.
    :param provider_object: data model object or dictionary of Octavia.
    :raises Refused: names the first option that is not supported.
    """
    given = translate.attributes(provider_object)
    for name, value in given.items():
        if name not in SUPPORT[kind] and value not in Refuse.unless:
            raise errors.Refused(
                name, f'this provider has no such option for a {kind}',
                'leave it out')
    # In the table's order, in which a user's options precede those that
    # Octavia derives from them.
    for name, rule in SUPPORT[kind].items():
        if name not in given:
            continue
        value = given[name]
        if isinstance(rule, Refuse):
            if not rule.is_default(value, policy):
                raise errors.Refused(name, rule.why, rule.instead)
        elif isinstance(rule, Done) and rule.check is not None:
            problem = rule.check(value, policy)
            if problem:
                raise errors.Refused(name, *problem)
    for child_kind, child in _children(kind, provider_object):
        check(child_kind, child, policy)


def members_of(kind: str, provider_object: typing.Any
               ) -> Iterator[typing.Any]:
    """Yield the members among an object and its descendants."""
    if kind == 'member':
        yield provider_object
    for child_kind, child in _children(kind, provider_object):
        yield from members_of(child_kind, child)


def _children(kind: str, provider_object: typing.Any
              ) -> Iterator[tuple[str, typing.Any]]:
    given = translate.attributes(provider_object)
    if kind == 'loadbalancer':
        for child in given.get('listeners') or []:
            yield 'listener', child
        for child in given.get('pools') or []:
            yield 'pool', child
    elif kind == 'listener' and given.get('default_pool'):
        yield 'pool', given['default_pool']
    elif kind == 'pool':
        for child in given.get('members') or []:
            yield 'member', child
        if given.get('healthmonitor'):
            yield 'healthmonitor', given['healthmonitor']
