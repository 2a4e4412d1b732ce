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
from octavia_xdp_provider.api import l7
from octavia_xdp_provider.api import policy as policies
from octavia_xdp_provider.api import translate
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor as flavors
from octavia_xdp_provider.contracts import l7_types
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import zone as zones

_Policy = policies.ApiPolicy
_Problem = errors.Problem | errors.Detailed | None
# Returns the problem of an option's value, or None.
Check = Callable[[typing.Any, _Policy], _Problem]


@dataclasses.dataclass(frozen=True)
class Only:
    """When an option has a meaning: for listeners of some protocols.

    ``unless``: values that ask for nothing. ``default`` names an option in
    Octavia's [api_settings]. If a change sets the attribute to null, which
    requests the default, Octavia substitutes that option's value, whatever the
    listener's protocol. Horizon does so with each change.
    """

    protocols: tuple[str, ...]
    unless: tuple[object, ...] = (None, [], {}, '', False, 'NONE')
    default: str | None = None

    def problem(self, protocol: str, value: typing.Any, policy: _Policy
                ) -> _Problem:
        """Return the problem of a value for a listener of other protocols."""
        if value in self.unless or (
                self.default in policy.octavia_defaults
                and value == policy.octavia_defaults[self.default]):
            return None
        return (f'it has no meaning for a listener with protocol {protocol}',
                f'leave it out, or use protocol {" or ".join(self.protocols)}')


# Which nodes do what an option says.
LB_NODES, PROXIES, BOTH = 'LB nodes', 'proxies', ''


@dataclasses.dataclass(frozen=True)
class Done:
    """A supported option, for the values that ``check`` accepts.

    ``note``: what users should know. ``by``: the nodes that do it, if these
    are not those that serve the listener. ``only``: Only, when it has a
    meaning.
    """

    check: Check | None = None
    note: str = ''
    by: str = BOTH
    only: Only | None = None


@dataclasses.dataclass(frozen=True)
class Refuse:
    """A refused option, except for values that mean "not requested"."""

    why: str
    instead: str
    unless: tuple[object, ...] = (None, [], {}, '', False)


Rule = Done | Refuse


def one_of(*values: str) -> Check:
    """Return a check that accepts the given values only."""
    def check(value: typing.Any, policy: _Policy) -> _Problem:
        if value in values:
            return None
        accepted = ' or '.join(str(item) for item in values)
        return f'the value {value!r} is not supported', f'use {accepted}'
    return check


def algorithm(value: typing.Any, policy: _Policy) -> _Problem:
    """Check the algorithm. Whether LB nodes may serve it by a hash depends on
    the flavor, which api/rules.py checks with the whole load balancer."""
    return one_of(*typing.get_args(fields.Algorithm))(value, policy)


def session_persistence(value: typing.Any, policy: _Policy) -> _Problem:
    """Check that each field has a meaning with the type."""
    if not value:
        return None
    kind = value.get('type')
    by_source = kind in (None, 'SOURCE_IP')
    if not by_source and kind not in typing.get_args(fields.PersistenceType):
        return one_of(*typing.get_args(fields.PersistenceType))(kind, policy)
    known = spec.PERSISTENCE if by_source else ('type', 'cookie_name')
    for name, given in value.items():
        if name not in known and given not in Refuse.unless:
            return (f'its {name} has no meaning with type '
                    f'{kind or "SOURCE_IP"}', 'leave it out')
    timeout = value.get('persistence_timeout')
    lowest, highest = flavors.IDLE_TIMEOUT_MIN, flavors.IDLE_TIMEOUT_MAX
    if timeout is not None and not lowest <= timeout <= highest:
        return (f'its persistence_timeout is {timeout}',
                f'use {lowest} to {highest} seconds')
    granularity, cookie = (value.get(name) for name in (
        'persistence_granularity', 'cookie_name'))
    problem = granularity and fields.netmask_problem(granularity)
    if problem:
        return f'its persistence_granularity {problem[0]}', problem[1]
    problem = cookie and l7.token_problem(cookie)
    return problem and (f'its cookie_name: {problem[0]}', problem[1])


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


def inserted_headers(value: typing.Any, policy: _Policy) -> _Problem:
    for name in value or ():
        problem = one_of(*typing.get_args(l7_types.InsertedHeader))(
            name, policy)
        if problem:
            return problem
    return None


def _unless_null(problem: Callable[[typing.Any], errors.Problem | None]
                 ) -> Check:
    """Return a check of values that are given."""
    def check_given(value: typing.Any, policy: _Policy) -> _Problem:
        return problem(value) if value else None
    check_given.__qualname__ = problem.__qualname__
    return check_given


def alpn_protocols(value: typing.Any, policy: _Policy) -> _Problem:
    for name in value or ():
        problem = one_of(*typing.get_args(l7_types.AlpnProtocol))(name, policy)
        if problem:
            return problem
    return None


_CIPHERS = _unless_null(l7.ciphers_problem)
_VERSIONS = _unless_null(l7.versions_problem)
_URL = _unless_null(l7.url_problem)


_TLS = Only(('TERMINATED_HTTPS', 'PROMETHEUS'))
_HTTPS = Only(('TERMINATED_HTTPS',))
_HTTP = Only(('HTTP', 'TERMINATED_HTTPS'))


def _tls_or(default: str) -> Only:
    return Only(_TLS.protocols, default=default)


def _by_proxies(check: Check | None = None, only: Only | None = None,
                note: str = '') -> Done:
    return Done(check, note, PROXIES, only)


def zone(value: typing.Any, policy: _Policy) -> _Problem:
    """Check zone metadata as availability zone profiles are checked."""
    return zones.problem(value) if value else None


_SILENCE = ('On LB nodes, the longer of the two is the time after which a '
            'silent flow may move to another member.')
_NO_CONNECTION = ('Without effect on LB nodes, where clients and members '
                  'connect to each other.')
_ALGORITHMS = ('LB nodes pick a flow\'s member by a consistent hash of its '
               'addresses and ports, or of its source address. ROUND_ROBIN '
               'and LEAST_CONNECTIONS move a listener with protocol TCP or '
               'HTTPS to proxies, each of which counts what it serves itself, '
               'unless the flavor or the operator lets the hash serve them '
               '(algorithms_served_by_hash), or the flavor has a forwarding '
               'or zero_touch, with which they are refused. For UDP and SCTP '
               'the hash serves them.')
_COOKIES = ('HTTP_COOKIE and APP_COOKIE need proxies, and a listener with '
            'protocol HTTP or TERMINATED_HTTPS; persistence_timeout and '
            'persistence_granularity need LB nodes.')

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
        'admin_state_up': Done(),
        'protocol': Done(one_of(*typing.get_args(fields.ListenerProtocol))),
        'protocol_port': Done(), 'default_pool': Done(),
        'default_pool_id': Done(),
        'connection_limit': Done(connection_limit, connections.NOTE),
        'allowed_cidrs': Done(allowed_cidrs, by=LB_NODES),
        'timeout_client_data': Done(note=_SILENCE),
        'timeout_member_data': Done(note=_SILENCE),
        'timeout_member_connect': _by_proxies(note=_NO_CONNECTION),
        'timeout_tcp_inspect': _by_proxies(note=_NO_CONNECTION),
        'insert_headers': _by_proxies(inserted_headers, _HTTP),
        'l7policies': _by_proxies(only=_HTTP),
        'default_tls_container_ref': _by_proxies(only=_TLS),
        'default_tls_container_data': _by_proxies(only=_TLS),
        'sni_container_refs': _by_proxies(only=_TLS),
        'sni_container_data': _by_proxies(only=_TLS),
        'client_ca_tls_container_ref': _by_proxies(only=_TLS),
        'client_ca_tls_container_data': _by_proxies(only=_TLS),
        'client_authentication': _by_proxies(only=_TLS),
        'client_crl_container_ref': _by_proxies(only=_TLS),
        'client_crl_container_data': _by_proxies(only=_TLS),
        'tls_versions': _by_proxies(
            _VERSIONS, _tls_or('default_listener_tls_versions')),
        'tls_ciphers': _by_proxies(
            _CIPHERS, _tls_or('default_listener_ciphers')),
        'alpn_protocols': _by_proxies(
            alpn_protocols, _tls_or('default_listener_alpn_protocols')),
        'hsts_max_age': _by_proxies(only=_HTTPS),
        'hsts_include_subdomains': _by_proxies(only=_HTTPS),
        'hsts_preload': _by_proxies(only=_HTTPS),
    },
    'pool': {
        'pool_id': Done(), 'loadbalancer_id': Done(), 'listener_id': Done(),
        'project_id': Done(), 'name': Done(), 'description': Done(),
        'admin_state_up': Done(),
        'protocol': Done(one_of(*typing.get_args(fields.PoolProtocol))),
        'lb_algorithm': Done(algorithm, _ALGORITHMS), 'members': Done(),
        'healthmonitor': Done(),
        'session_persistence': Done(session_persistence, _COOKIES),
        'tls_enabled': _by_proxies(), 'tls_container_ref': _by_proxies(),
        'tls_container_data': _by_proxies(),
        'ca_tls_container_ref': _by_proxies(),
        'ca_tls_container_data': _by_proxies(),
        'crl_container_ref': _by_proxies(),
        'crl_container_data': _by_proxies(),
        'tls_versions': _by_proxies(_VERSIONS),
        'tls_ciphers': _by_proxies(_CIPHERS),
        'alpn_protocols': _by_proxies(alpn_protocols),
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
    'l7policy': {
        'l7policy_id': Done(), 'listener_id': Done(), 'project_id': Done(),
        'name': Done(), 'description': Done(),
        'admin_state_up': _by_proxies(),
        'action': _by_proxies(one_of(*typing.get_args(l7_types.Action))),
        'position': _by_proxies(), 'redirect_pool_id': _by_proxies(),
        'redirect_url': _by_proxies(_URL),
        'redirect_prefix': _by_proxies(_URL),
        'redirect_http_code': _by_proxies(), 'rules': _by_proxies(),
    },
    'l7rule': {
        'l7rule_id': Done(), 'l7policy_id': Done(), 'project_id': Done(),
        'admin_state_up': _by_proxies(),
        'type': _by_proxies(one_of(*typing.get_args(l7_types.RuleType))),
        'compare_type': _by_proxies(
            one_of(*typing.get_args(l7_types.CompareType))),
        'key': _by_proxies(note='Of types HEADER, COOKIE and SSL_DN_FIELD: '
                                'the name.'),
        'value': _by_proxies(_unless_null(l7.text_problem)),
        'invert': _by_proxies(),
    },
}


def check(kind: str, provider_object: typing.Any, policy: _Policy,
          protocol: str | None = None) -> None:
    """Check an object and its children against SUPPORT.

    :param kind: a key of SUPPORT.
    :param provider_object: data model object or dictionary of Octavia.
    :param protocol: of a listener, if the object lacks it.
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
        if name in given:
            problem = _problem(rule, given[name], policy,
                               given.get('protocol') or protocol)
            if problem:
                raise errors.Refused(name, *problem)
    for child_kind, child in _children(kind, provider_object):
        check(child_kind, child, policy)


def _problem(rule: Rule, value: typing.Any, policy: _Policy,
             protocol: str | None) -> _Problem:
    if isinstance(rule, Refuse):
        return None if value in rule.unless else (rule.why, rule.instead)
    if rule.only and protocol and protocol not in rule.only.protocols:
        return rule.only.problem(protocol, value, policy)
    return rule.check(value, policy) if rule.check else None


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
    elif kind == 'listener':
        if given.get('default_pool'):
            yield 'pool', given['default_pool']
        for child in given.get('l7policies') or []:
            yield 'l7policy', child
    elif kind == 'l7policy':
        for child in given.get('rules') or []:
            yield 'l7rule', child
    elif kind == 'pool':
        for child in given.get('members') or []:
            yield 'member', child
        if given.get('healthmonitor'):
            yield 'healthmonitor', given['healthmonitor']
