# SPDX-License-Identifier: Apache-2.0
"""Types of the wanted state's fields, with their valid values.

The bounds are those of a node: of ``contracts/checks.schema.json`` for health
checks, of the datapath library for services. pydantic checks them
(contracts/shape.py); functions here check what its constraints cannot express,
and raise ``errors.BadValue``.
"""

from collections.abc import Callable
import ipaddress
import re
from typing import Annotated
from typing import Any
from typing import Literal

import pydantic
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import expected_codes
from octavia_xdp_provider.contracts import flavor as flavors
from octavia_xdp_provider.contracts import persistence
from octavia_xdp_provider.contracts import zone

# Per listener: each network takes an entry of the nodes' maps.
ALLOWED_CIDRS_MAX = 1024
_IPV4_MAPPED = ipaddress.IPv6Network('::ffff:0:0/96')
_URL_PATH = re.compile(r'/[!-~]*')
_URL_PATH_MAX = 2048
# All except dscp, which is a property of a whole service.
TUNNEL_ENCAPSULATIONS = tuple(
    name for name in flavors.ENCAPSULATIONS if name != 'dscp')
# The minimum MTU of IPv6.
INNER_MTU_MIN = 1280
# Longest patience with a member that moves to another host, in seconds.
PATIENCE_MAX = 3600
_INTEGER_MAX = 2 ** 63 - 1
_DOMAIN_NAME = re.compile(r'[0-9A-Za-z._-]{1,255}')


def refuse(check: Callable[[Any], errors.Problem | None]
           ) -> pydantic.AfterValidator:
    """Return a validator from a function that returns a problem or None."""
    def validate(value: Any) -> Any:
        problem = check(value)
        if problem:
            raise errors.BadValue(*problem)
        return value
    return pydantic.AfterValidator(validate)


def address_problem(value: str) -> errors.Problem | None:
    try:
        return address_policy.family_problem(ipaddress.ip_address(value))
    except ValueError:
        return f'{value!r} is no address', 'use an IPv4 or IPv6 address'


def network_problem(value: str, strict: bool = True
                    ) -> errors.Problem | None:
    """:param strict: whether to refuse networks with host bits set."""
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return f'{value!r} is no network', 'use CIDR notation'
    if strict and '/' in value and (
            ipaddress.ip_address(value.partition('/')[0])
            != network.network_address):
        return f'{value} has bits behind its prefix', f'use {network}'
    if (isinstance(network, ipaddress.IPv6Network)
            and network.subnet_of(_IPV4_MAPPED)):
        return (f'{network} is a network of IPv4 addresses written as IPv6 '
                'ones', 'write it as an IPv4 network')
    return None


def netmask_problem(value: str) -> errors.Problem | None:
    try:
        persistence.prefix(value)
    except ValueError as error:
        return f'{error}', 'use one as 255.255.255.0 or ffff:ffff:ffff:ffff::'
    return None


def codes_problem(value: str) -> errors.Problem | None:
    try:
        expected_codes.parse(value)
    except ValueError:
        return (f'the value {value!r} is not a code, a list or a range of '
                'HTTP status codes', 'use one as 200,202 or 200-204')
    return None


def http_version_problem(value: float) -> errors.Problem | None:
    if value in (1.0, 1.1):
        return None
    return f'the value {value} is not supported', 'use 1.0 or 1.1'


def url_path_problem(value: str) -> errors.Problem | None:
    if len(value) > _URL_PATH_MAX:
        return (f'it has {len(value)} characters',
                f'use at most {_URL_PATH_MAX}')
    if not _URL_PATH.fullmatch(value):
        return (f'the value {value!r} is not an absolute path of printable '
                'ASCII characters without spaces',
                'begin it with "/" and percent-encode other characters')
    return None


def domain_name_problem(value: str) -> errors.Problem | None:
    if _DOMAIN_NAME.fullmatch(value):
        return None
    return (f'the value {value!r} is not 1 to 255 letters, digits, dots, '
            'hyphens and underscores', 'write the name in its ASCII form')


def tunnel_encapsulation_problem(value: str) -> errors.Problem | None:
    if value in TUNNEL_ENCAPSULATIONS:
        return None
    return (f'{value!r} is no encapsulation of a tunnel',
            f'use {" or ".join(TUNNEL_ENCAPSULATIONS)}')


class Flavor(TypedDict, total=False):
    """Flavor metadata; meaning and values are in contracts/flavor.py."""

    replicas: int
    spread: str
    forwarding: str
    encapsulation: str
    dscp: int
    srv6_function: int
    quic: bool
    second_chance: bool
    new_flow_rate: int
    new_flow_burst: int
    connection_limit_reset: bool
    idle_timeout: int
    algorithms_served_by_hash: list[str]
    member_port: str
    zero_touch: str
    proxy_connections: int
    proxy_threads: int
    proxy_memory: int
    proxy_stop_after: int


class Zone(TypedDict, total=False):
    """Metadata of an availability zone; see contracts/zone.py."""

    zone: str
    valid_vip_networks: list[str]


def _flavor(value: Any) -> Any:
    problem = flavors.problem(value)
    if problem:
        raise errors.BadValue(*problem)
    return value


def _zone(value: Any) -> Any:
    problem = zone.problem(value)
    if problem:
        raise errors.BadValue(*problem)
    return value


Integer = Annotated[int, pydantic.Field(ge=0, le=_INTEGER_MAX)]
# UUIDs in practice; in any case they can be names of files and keys of rows.
Id = Annotated[str, pydantic.Field(
    pattern=r'^[0-9A-Za-z][0-9A-Za-z_-]{0,63}$')]
Uuid = Annotated[str, pydantic.Field(
    pattern=r'^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')]
Address = Annotated[str, refuse(address_problem)]
Network = Annotated[str, refuse(network_problem)]
Networks = Annotated[list[Network], pydantic.Field(
    max_length=ALLOWED_CIDRS_MAX)]
Netmask = Annotated[str, refuse(netmask_problem)]
Port = Annotated[int, pydantic.Field(ge=1, le=65535)]
Weight = Annotated[int, pydantic.Field(ge=0, le=256)]
# A probe takes time, and so does the pause between two probes.
ProbeSeconds = Annotated[int, pydantic.Field(ge=1, le=2 ** 31 - 1)]
ProbeCount = Annotated[int, pydantic.Field(ge=1, le=10)]
IdleSeconds = Annotated[int, pydantic.Field(
    ge=flavors.IDLE_TIMEOUT_MIN, le=flavors.IDLE_TIMEOUT_MAX)]
StatusCodes = Annotated[str, refuse(codes_problem)]
HttpVersion = Annotated[float, refuse(http_version_problem)]
UrlPath = Annotated[str, refuse(url_path_problem)]
DomainName = Annotated[str, refuse(domain_name_problem)]
TunnelEncapsulation = Annotated[str, refuse(tunnel_encapsulation_problem)]
TunnelKey = Annotated[int, pydantic.Field(ge=1, le=2 ** 32 - 1)]
InnerMtu = Annotated[int, pydantic.Field(ge=INNER_MTU_MIN, le=65535)]
Patience = Annotated[int, pydantic.Field(ge=1, le=PATIENCE_MAX)]
Milliseconds = Annotated[int, pydantic.Field(ge=0, le=2 ** 31 - 1)]
ConnectionLimit = Annotated[int, pydantic.Field(ge=1, le=2 ** 31 - 1)]
FlavorMetadata = Annotated[Flavor, pydantic.PlainValidator(_flavor)]
ZoneMetadata = Annotated[Zone, pydantic.PlainValidator(_zone)]

# HTTPS: Octavia's name for TLS that members terminate; TCP to the nodes.
ListenerProtocol = Literal['TCP', 'UDP', 'SCTP', 'HTTPS', 'HTTP',
                           'TERMINATED_HTTPS', 'PROMETHEUS']
PoolProtocol = Literal['TCP', 'UDP', 'SCTP', 'HTTPS', 'HTTP', 'PROXY',
                       'PROXYV2']
Algorithm = Literal['SOURCE_IP_PORT', 'SOURCE_IP', 'ROUND_ROBIN',
                    'LEAST_CONNECTIONS']
PersistenceType = Literal['SOURCE_IP', 'HTTP_COOKIE', 'APP_COOKIE']
MonitorType = Literal['HTTP', 'HTTPS', 'PING', 'SCTP', 'TCP', 'TLS-HELLO',
                      'UDP-CONNECT']
HttpMethod = Literal['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'TRACE',
                     'OPTIONS', 'CONNECT', 'PATCH']
# How members without a tunnel are reached; see contracts/spec.py.
MemberWay = Literal['direct', 'none']
