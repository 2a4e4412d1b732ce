# SPDX-License-Identifier: Apache-2.0
"""The wanted state of a load balancer on proxy nodes: one document.

It has what a proxy needs of the listeners that proxy nodes serve::

    {"version": 1, "id": "<load balancer id>", "admin_state_up": true,
     "vip_address": "203.0.113.10", "additional_vips": [],
     "listeners": {"<id>": {
         "protocol": "TERMINATED_HTTPS", "protocol_port": 443,
         "default_pool_id": "<id>", "insert_headers": ["X-Forwarded-For"],
         "default_tls_bundle": "<hash>", "alpn_protocols": ["h2"], …,
         "l7policies": {"<id>": {
             "action": "REDIRECT_TO_POOL", "position": 1,
             "redirect_pool_id": "<id>", …,
             "rules": {"<id>": {
                 "type": "PATH", "compare_type": "STARTS_WITH", "key": null,
                 "value": "/api", "invert": false, …}}}}}},
     "pools": {"<id>": {"protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN",
                        "tls_enabled": false,
                        "members": {"<id>": {"address": "198.18.10.11",
                                             "protocol_port": 80, …}},
                        "healthmonitor": {"type": "HTTP", …}, …}}}

Field names and values are Octavia's, with three exceptions. Certificates,
keys, CAs and CRLs are named by the hash of their bundle, and no secret is in a
document. ``insert_headers`` is the sorted list of the headers that are on.
``connection_limit`` is null if there is no limit. Ids are Octavia's UUIDs.
``allowed_cidrs`` is missing, because LB nodes enforce it.

The types check the structure. Values that a proxy cannot serve, and rules that
span fields, are refused by api/l7.py and api/proxied.py.
"""

from typing import Annotated
from typing import Literal

import pydantic
from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor as flavors
from octavia_xdp_provider.contracts import l7_types
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.contracts import spec

VERSION = 1
# Port of each VIP at which HAProxy itself answers probes of LB nodes, which
# reach it through the tunnel of clients' packets.
HEALTH_PORT = 65535

ListenerProtocol = Literal['HTTP', 'TERMINATED_HTTPS', 'PROMETHEUS', 'TCP',
                           'HTTPS']
PoolProtocol = Literal['HTTP', 'HTTPS', 'PROXY', 'PROXYV2', 'TCP']
PersistenceType = Literal['SOURCE_IP', 'HTTP_COOKIE', 'APP_COOKIE']
# Types that the load balancer's own document has too.
AlpnProtocol = l7_types.AlpnProtocol
BundleHash = l7_types.BundleHash
Policy = l7_types.Policy
Rule = l7_types.Rule
TlsVersion = l7_types.TlsVersion


@shape.strict
class SessionPersistence(TypedDict):
    """``cookie_name``: of APP_COOKIE; null otherwise."""

    type: PersistenceType
    cookie_name: str | None


@shape.strict
class Member(TypedDict):
    """Where the proxy connects to, and where the checker probes instead if
    that is not null.

    ``token``: the address that takes the place of ``address``, which is that
    of a VM behind a hypervisor: packets to it go through ``tunnel``.
    """

    admin_state_up: bool
    address: fields.Address
    protocol_port: fields.Port
    weight: fields.Weight
    backup: bool
    monitor_address: fields.Address | None
    monitor_port: fields.Port | None
    token: NotRequired[fields.Address]
    tunnel: NotRequired[proxy_launch.Tunnel]


@shape.strict
class Pool(TypedDict):
    """``tls_…``, ``…_bundle`` and ``alpn_protocols``: of the connections to
    members. ``tls_ciphers``: in OpenSSL's syntax; null: its defaults.
    ``tls_bundle``: the certificate that members are shown."""

    admin_state_up: bool
    protocol: PoolProtocol
    lb_algorithm: fields.Algorithm
    session_persistence: SessionPersistence | None
    tls_enabled: bool
    tls_bundle: BundleHash | None
    ca_bundle: BundleHash | None
    crl_bundle: BundleHash | None
    tls_ciphers: str | None
    tls_versions: list[TlsVersion] | None
    alpn_protocols: list[AlpnProtocol] | None
    members: dict[fields.Uuid, Member]
    healthmonitor: spec.HealthMonitor | None


@shape.strict
class Listener(TypedDict):
    """``timeout_…``: ms; null: Octavia's default. ``default_tls_bundle``: the
    certificate of clients without SNI, or with a name that none of
    ``sni_bundles`` has; null: the first of these. ``alpn_protocols``: null or
    empty: no ALPN. ``hsts_max_age``: seconds; null: no HSTS."""

    admin_state_up: bool
    protocol: ListenerProtocol
    protocol_port: fields.Port
    default_pool_id: fields.Uuid | None
    connection_limit: fields.ConnectionLimit | None
    timeout_client_data: fields.Milliseconds | None
    timeout_member_connect: fields.Milliseconds | None
    timeout_member_data: fields.Milliseconds | None
    timeout_tcp_inspect: fields.Milliseconds | None
    insert_headers: list[l7_types.InsertedHeader]
    default_tls_bundle: BundleHash | None
    sni_bundles: list[BundleHash]
    client_authentication: l7_types.ClientAuthentication
    client_ca_bundle: BundleHash | None
    client_crl_bundle: BundleHash | None
    tls_ciphers: str | None
    tls_versions: list[TlsVersion] | None
    alpn_protocols: list[AlpnProtocol] | None
    hsts_max_age: l7_types.Age | None
    hsts_include_subdomains: bool
    hsts_preload: bool
    l7policies: dict[fields.Uuid, Policy]


def _range(name: str) -> object:
    lowest, highest = flavors.PROXY_RANGES[name]
    return pydantic.Field(ge=lowest, le=highest)


@shape.strict
class Flavor(TypedDict, total=False):
    """Keys that take the place of options of the node; their meaning is in
    contracts/flavor.py."""

    proxy_connections: Annotated[int, _range('proxy_connections')]
    proxy_threads: Annotated[int, _range('proxy_threads')]
    proxy_memory: Annotated[int, _range('proxy_memory')]
    proxy_stop_after: Annotated[int, _range('proxy_stop_after')]


@shape.strict
class Document(TypedDict):
    """A load balancer; ``listeners`` and ``pools`` by id.

    ``additional_vips``: addresses, sorted. ``nodes``: hosts of the proxy
    nodes that divide connection limits among themselves, sorted. ``flavor``:
    missing if it has no key for proxy nodes.
    """

    version: int
    id: fields.Uuid
    name: NotRequired[str | None]
    project_id: NotRequired[str | None]
    admin_state_up: bool
    vip_address: fields.Address
    additional_vips: list[fields.Address]
    listeners: dict[fields.Uuid, Listener]
    pools: dict[fields.Uuid, Pool]
    nodes: NotRequired[list[str]]
    flavor: NotRequired[Flavor]


_DOCUMENT = shape.Shape(Document)


def check(document: object) -> None:
    """Check the structure of a document that another process wrote.

    :raises Refused: names the path of the first wrong field.
    """
    shape.check_version(document, VERSION)
    _DOCUMENT.check(document)


def connected_address(member: Member) -> str:
    """Return the address that a proxy connects to for a member."""
    return member.get('token') or member['address']


def vips(document: Document) -> list[str]:
    """Return all VIPs, the primary one first."""
    return [document['vip_address'], *document['additional_vips']]


def has_tls(listener: Listener) -> bool:
    """Return whether clients of a listener speak TLS to the proxy: those of
    TERMINATED_HTTPS always, those of PROMETHEUS if it has a certificate."""
    return bool(listener['default_tls_bundle'] or listener['sni_bundles'])


def policies_in_use(listener: Listener) -> list[tuple[str, Policy]]:
    """Return ids and policies that take part, by position.

    As in Octavia, a policy without enabled rules matches nothing.
    """
    return sorted(
        ((key, policy) for key, policy in listener['l7policies'].items()
         if policy['admin_state_up'] and rules_in_use(policy)),
        key=lambda item: (item[1]['position'], item[0]))


def rules_in_use(policy: Policy) -> list[tuple[str, Rule]]:
    """Return ids and rules that are enabled, by id."""
    return sorted((key, rule) for key, rule in policy['rules'].items()
                  if rule['admin_state_up'])


def pools_of(document: Document, listener: Listener) -> list[tuple[str, Pool]]:
    """Return ids and pools that a listener can send requests to, by id."""
    wanted = {listener['default_pool_id'], *(
        policy['redirect_pool_id']
        for _key, policy in policies_in_use(listener))}
    return sorted((key, pool) for key, pool in document['pools'].items()
                  if key in wanted)
