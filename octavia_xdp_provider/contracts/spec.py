# SPDX-License-Identifier: Apache-2.0
"""The wanted state of a load balancer: one document.

A document is plain JSON, which is sent and stored without conversion::

    {"version": 1, "id": "<load balancer id>",
     "name": "", "project_id": "", "admin_state_up": true,
     "vip_address": "203.0.113.10", "vip_port_id": "", …,
     "additional_vips": [{"ip_address": "2001:db8:100::10", …}],
     "flavor": {"encapsulation": "gue", …},
     "availability_zone": {"zone": "east"},
     "listeners": {"<id>": {"protocol": "TCP", "protocol_port": 80,
                            "allowed_cidrs": ["198.51.100.0/24"],
                            "default_pool_id": "<id>", …}},
     "pools": {"<id>": {"protocol": "TCP",
                        "lb_algorithm": "SOURCE_IP_PORT",
                        "session_persistence": {
                            "type": "SOURCE_IP",
                            "persistence_timeout": null,
                            "persistence_granularity": null}, …,
                        "members": {"<id>": {"address": "198.18.10.11",
                                             "protocol_port": 80,
                                             "weight": 1,
                                             "backup": false, …}},
                        "healthmonitor": {"id": "<id>", "type": "HTTP", …}}}}

Field names and values are Octavia's (api/translate.py), those of the flavor
are in contracts/flavor.py. Layer-7 fields are left out where they have
Octavia's default. A document is not sent to nodes as it is: each tier is sent
its own view (contracts/views.py). Every function here is pure: it returns a
new document and does not modify its argument. api/validation.py decides which
documents are supported, contracts/changes.py applies changes to them.

The types are TypedDicts and not dataclasses: a document is JSON in messages,
in the database and in the node's cache, so it is read without a conversion
that could lose something. A new field, or a new value of one, needs a new
``VERSION``, because a reader that does not know it must refuse the document.
Nodes are upgraded one after the other, so each is sent documents in the
oldest version that can express them (``for_node``), and older nodes can serve
those that need no new field or value. Nodes report the newest version that
they support, and are not given documents of newer ones (``filters.version``).
"""

from collections.abc import Iterator
import copy
import functools
import ipaddress
from typing import Any
from typing import cast

from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields as types
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import l7_types
from octavia_xdp_provider.contracts import shape

VERSION = 1

# Some fields of an object, by name.
Fields = dict[str, Any]
# An object of a document: its kind (a key of DEFAULTS), and its id.
Object = tuple[str, str]


@shape.strict
class SessionPersistence(TypedDict):
    """A time in seconds, and a netmask such as 255.255.255.0, of persistence
    by source address; ``cookie_name``: of APP_COOKIE."""

    type: types.PersistenceType | None
    persistence_timeout: types.IdleSeconds | None
    persistence_granularity: types.Netmask | None
    cookie_name: NotRequired[str | None]


@shape.strict
class HealthMonitor(TypedDict):
    """How members are probed: ``delay`` and ``timeout`` in seconds."""

    id: str
    name: NotRequired[str | None]
    admin_state_up: bool
    type: types.MonitorType
    delay: types.ProbeSeconds
    timeout: types.ProbeSeconds
    max_retries: types.ProbeCount
    max_retries_down: types.ProbeCount
    http_method: types.HttpMethod
    url_path: types.UrlPath
    expected_codes: types.StatusCodes
    http_version: types.HttpVersion
    domain_name: types.DomainName | None


@shape.strict
class Tunnel(TypedDict):
    """A tunnel to a member that packets are not sent to by its address.

    ``address``: of the host at its end; with ``encapsulation`` srv6 a SID.
    ``key``: identifies the member and its port to that host: the VNI of
    geneve, or the last 32 bits of the SID, which are 0 in ``address`` then.
    ``keys``: by listener id, take precedence over ``key``.
    ``additional_keys``: the same for packets to additional VIPs: by VIP, then
    by listener id. ``mtu``: largest inner packet in bytes.
    ``takes_alternative``: its end accepts packets that name a second member,
    as nodes send them with a flavor that has a second chance.
    ``patience``: seconds for which the member's health checks must fail
    without a success before it is down; only present while its port is moving
    to another host, or has moved a moment ago.
    """

    address: types.Address
    encapsulation: types.TunnelEncapsulation
    key: NotRequired[types.TunnelKey]
    keys: NotRequired[dict[str, types.TunnelKey]]
    additional_keys: NotRequired[
        dict[types.Address, dict[str, types.TunnelKey]]]
    mtu: NotRequired[types.InnerMtu]
    takes_alternative: NotRequired[bool]
    patience: NotRequired[types.Patience]


@shape.strict
class Member(TypedDict):
    """Where packets go, and what is probed instead if that is not null.

    ``address`` and port identify the member in the nodes' hash. ``tunnel``:
    how packets reach it, if not by the flavor's encapsulation to its address.
    ``way``: of a member without a tunnel if the flavor has zero_touch:
    "direct": reached at its address; "none": not reached. A member with
    neither is one that a controller has not decided yet. Only controllers set
    these, and ``token``: the API has no such fields, and its changes keep
    them. Nodes are sent the members that they can reach, without ``way``.
    ``token``: the address that stands for a member with a tunnel on proxy
    nodes; its tunnel has one ``key`` for all listeners. ``leaving``: in
    the view of LB nodes alone: it is of the tier that served the listener
    before, has connections from then, gets no new ones and is not probed.
    """

    name: NotRequired[str | None]
    admin_state_up: bool
    address: types.Address
    protocol_port: types.Port
    weight: types.Weight
    backup: bool
    subnet_id: NotRequired[str | None]
    monitor_address: types.Address | None
    monitor_port: types.Port | None
    tunnel: NotRequired[Tunnel]
    way: NotRequired[types.MemberWay]
    token: NotRequired[types.Address]
    leaving: NotRequired[bool]


@shape.strict
class Pool(TypedDict):
    """``members``: by id. ``tls_…``, ``…_bundle``, ``…_ref`` and
    ``alpn_protocols``: of a proxy's connections to members, as in
    contracts/proxy_spec.py; a ``…_ref`` is what Octavia has for a bundle.
    ``proxies``: in the view of LB nodes alone (contracts/views.py): its
    members are proxy nodes, which are reached by tunnels without a key and on
    the listener's port, with a second chance, whatever the flavor says of
    members."""

    name: NotRequired[str | None]
    admin_state_up: bool
    protocol: types.PoolProtocol
    lb_algorithm: types.Algorithm
    session_persistence: SessionPersistence | None
    members: dict[str, Member]
    healthmonitor: HealthMonitor | None
    tls_enabled: NotRequired[bool]
    tls_bundle: NotRequired[l7_types.BundleHash]
    tls_container_ref: NotRequired[str]
    ca_bundle: NotRequired[l7_types.BundleHash]
    ca_tls_container_ref: NotRequired[str]
    crl_bundle: NotRequired[l7_types.BundleHash]
    crl_container_ref: NotRequired[str]
    tls_ciphers: NotRequired[str]
    tls_versions: NotRequired[list[l7_types.TlsVersion]]
    alpn_protocols: NotRequired[list[l7_types.AlpnProtocol]]
    proxies: NotRequired[bool]


@shape.strict
class Listener(TypedDict):
    """``allowed_cidrs``: null for all. ``timeout_…``: ms; null: the flavor's
    idle time. ``connection_limit``: concurrent connections; null: no limit
    (api/connections.py). Fields that are not required are those of layer 7,
    as in contracts/proxy_spec.py; a ``…_ref`` is what Octavia has for a
    bundle."""

    name: NotRequired[str | None]
    admin_state_up: bool
    protocol: types.ListenerProtocol
    protocol_port: types.Port
    default_pool_id: str | None
    allowed_cidrs: types.Networks | None
    timeout_client_data: types.Milliseconds | None
    timeout_member_data: types.Milliseconds | None
    connection_limit: types.ConnectionLimit | None
    timeout_member_connect: NotRequired[types.Milliseconds]
    timeout_tcp_inspect: NotRequired[types.Milliseconds]
    insert_headers: NotRequired[list[l7_types.InsertedHeader]]
    default_tls_bundle: NotRequired[l7_types.BundleHash]
    default_tls_container_ref: NotRequired[str]
    sni_bundles: NotRequired[list[l7_types.BundleHash]]
    sni_container_refs: NotRequired[list[str]]
    client_authentication: NotRequired[l7_types.ClientAuthentication]
    client_ca_bundle: NotRequired[l7_types.BundleHash]
    client_ca_tls_container_ref: NotRequired[str]
    client_crl_bundle: NotRequired[l7_types.BundleHash]
    client_crl_container_ref: NotRequired[str]
    tls_ciphers: NotRequired[str]
    tls_versions: NotRequired[list[l7_types.TlsVersion]]
    alpn_protocols: NotRequired[list[l7_types.AlpnProtocol]]
    hsts_max_age: NotRequired[l7_types.Age]
    hsts_include_subdomains: NotRequired[bool]
    hsts_preload: NotRequired[bool]
    l7policies: NotRequired[dict[str, l7_types.Policy]]


@shape.strict
class AdditionalVip(TypedDict):
    """An additional VIP, with Octavia's field names."""

    ip_address: types.Address
    port_id: NotRequired[str | None]
    subnet_id: NotRequired[str | None]
    network_id: NotRequired[str | None]


@shape.strict
class ProxyNode(TypedDict):
    """A proxy node that LB nodes send connections to.

    ``addresses``: where tunnels to it end, at most one of each IP version.
    ``weight``: 0 while it must get no new connections.
    """

    addresses: list[types.Address]
    weight: types.Weight


@shape.strict
class Proxies(TypedDict):
    """``nodes``: by host. ``listeners``: ids of the proxied listeners that all
    of them serve, sorted; LB nodes send no other to them. ``moving``: of
    listeners that LB nodes served alone, and do so until proxy nodes do: the
    pool that they had by default."""

    nodes: dict[str, ProxyNode]
    listeners: list[str]
    moving: NotRequired[dict[str, str]]


@shape.strict
class Moved(TypedDict):
    """A listener that the other tier served before: the pool that LB nodes
    sent its connections to, and when it moved (seconds, by the database's
    clock)."""

    pool: Pool
    at: float


@shape.strict
class Document(TypedDict):
    """A load balancer; ``listeners`` and ``pools`` by id.

    ``additional_vips``: sorted by address, usually empty. ``flavor`` and
    ``availability_zone``: metadata at creation, with the operator's defaults
    of that time. ``announcing``: hosts of the nodes that announce the VIPs,
    set by the controller if the flavor has NAT and a listener has a
    ``connection_limit`` (api/connections.py). ``proxies``: set by the
    controller while proxy nodes serve listeners (contracts/tiers.py).
    ``moved``: set by the controller, by listener id
    (controller/store/moves.py).
    """

    version: int
    id: str
    name: NotRequired[str | None]
    project_id: NotRequired[str | None]
    admin_state_up: bool
    vip_address: types.Address
    vip_port_id: NotRequired[str | None]
    vip_subnet_id: NotRequired[str | None]
    vip_network_id: NotRequired[str | None]
    additional_vips: list[AdditionalVip]
    flavor: types.FlavorMetadata
    availability_zone: NotRequired[types.ZoneMetadata]
    listeners: dict[str, Listener]
    pools: dict[str, Pool]
    announcing: NotRequired[list[str]]
    proxies: NotRequired[Proxies]
    moved: NotRequired[dict[str, Moved]]


# Values of fields that the API leaves unset or resets with null.
DEFAULTS: dict[str, Fields] = {
    'loadbalancer': {'admin_state_up': True, 'additional_vips': [],
                     'flavor': {}, 'availability_zone': {}},
    'listener': {'admin_state_up': True, 'default_pool_id': None,
                 'allowed_cidrs': None, 'timeout_client_data': None,
                 'timeout_member_data': None, 'connection_limit': None},
    'pool': {'admin_state_up': True, 'session_persistence': None},
    'member': {'admin_state_up': True, 'weight': 1, 'backup': False,
               'monitor_address': None, 'monitor_port': None},
    'healthmonitor': {'admin_state_up': True, 'max_retries_down': 3,
                      'http_method': 'GET', 'url_path': '/',
                      'expected_codes': '200', 'http_version': 1.0,
                      'domain_name': None},
    'l7policy': {'admin_state_up': True, 'redirect_pool_id': None,
                 'redirect_url': None, 'redirect_prefix': None,
                 'redirect_http_code': None, 'rules': {}},
    'l7rule': {'admin_state_up': True, 'key': None, 'invert': False},
}

# Layer-7 fields, which a document lacks if they have this value or null.
_TLS: Fields = {'tls_ciphers': None, 'tls_versions': [], 'alpn_protocols': []}
L7_DEFAULTS: dict[str, Fields] = {
    'listener': {
        'timeout_member_connect': None, 'timeout_tcp_inspect': None,
        'insert_headers': [], 'default_tls_bundle': None,
        'default_tls_container_ref': None, 'sni_bundles': [],
        'sni_container_refs': [], 'client_authentication': 'NONE',
        'client_ca_bundle': None, 'client_ca_tls_container_ref': None,
        'client_crl_bundle': None, 'client_crl_container_ref': None, **_TLS,
        'hsts_max_age': None, 'hsts_include_subdomains': False,
        'hsts_preload': False, 'l7policies': {}},
    'pool': {
        'tls_enabled': False, 'tls_bundle': None, 'tls_container_ref': None,
        'ca_bundle': None, 'ca_tls_container_ref': None, 'crl_bundle': None,
        'crl_container_ref': None, **_TLS},
}

PERSISTENCE = ('type', 'persistence_timeout', 'persistence_granularity')


def with_defaults(kind: str, fields: Fields) -> Fields:
    """Return an object with every field of its kind, without layer-7 fields
    that have Octavia's default."""
    # Controllers do this for each member of each document that a node fetches.
    result = dict(fields)
    absent = L7_DEFAULTS.get(kind, {})
    for name in absent.keys() & result.keys():
        if result[name] in (None, absent[name]):
            del result[name]
    for name, value in DEFAULTS[kind].items():
        if result.get(name) is None:
            result[name] = (copy.copy(value)
                            if isinstance(value, list | dict) else value)
    if kind == 'pool' and result['session_persistence']:
        given = result['session_persistence']
        result['session_persistence'] = {
            name: given.get(name) for name in PERSISTENCE}
        if given.get('cookie_name') is not None:
            result['session_persistence']['cookie_name'] = given['cookie_name']
    return result


def complete_pool(tree: Fields) -> Pool:
    """Return a pool with every field, also of members and health monitor."""
    result = with_defaults('pool', tree)
    result['members'] = {key: with_defaults('member', value)
                         for key, value in (tree.get('members') or {}).items()}
    monitor = tree.get('healthmonitor')
    result['healthmonitor'] = (
        with_defaults('healthmonitor', monitor) if monitor else None)
    return cast(Pool, result)


def complete_policy(tree: Fields) -> l7_types.Policy:
    """Return an L7 policy with every field, also of its rules."""
    result = with_defaults('l7policy', tree)
    result['rules'] = {key: with_defaults('l7rule', rule)
                       for key, rule in result['rules'].items()}
    return cast(l7_types.Policy, result)


def complete_listener(tree: Fields) -> Listener:
    """Return a listener with every field, also of its L7 policies."""
    result = with_defaults('listener', tree)
    if 'l7policies' in result:
        result['l7policies'] = {
            key: complete_policy(policy)
            for key, policy in result['l7policies'].items()}
    return cast(Listener, result)


def document(load_balancer_id: str, tree: Fields) -> Document:
    """Build a document from a tree of translate.load_balancer_tree."""
    result = with_defaults('loadbalancer', tree)
    result['version'] = VERSION
    result['id'] = load_balancer_id
    result['listeners'] = {
        key: complete_listener(value)
        for key, value in (tree.get('listeners') or {}).items()}
    result['pools'] = {key: complete_pool(value)
                       for key, value in (tree.get('pools') or {}).items()}
    return cast(Document, result)


def complete(doc: Fields) -> Document:
    """Return an older document with every field of this version.

    :raises Refused: the document has a newer version.
    """
    if doc['version'] > VERSION:
        raise errors.Refused(
            'version', f'{doc["version"]} is newer than {VERSION}, the '
            'newest that is known here', 'upgrade this process')
    return document(doc['id'], doc)


def has_limits(doc: Document) -> bool:
    """Return whether a listener has a connection limit that nodes share."""
    return flavor.is_nat(doc['flavor']) and any(
        listener.get('connection_limit')
        for listener in doc['listeners'].values())


def needed_version(doc: Document) -> int:
    """Return the oldest version that can express a document."""
    return 1


def for_node(doc: Document) -> Document:
    """Return a document as it is sent to nodes: in the oldest version.

    It has no availability zone, which only matters for placement.
    """
    result: Fields = dict(doc)
    result.pop('availability_zone', None)
    result['flavor'] = flavor.for_nodes(doc['flavor'])
    if is_zero_touch(doc):
        result['pools'] = {key: _reached(pool)
                           for key, pool in doc['pools'].items()}
        result['listeners'] = {
            key: listener for key, listener in doc['listeners'].items()
            if not any(True for _ in awaiting_keys(doc, key))}
    if not has_limits(doc):
        result.pop('announcing', None)
    result['version'] = needed_version(doc)
    return cast(Document, result)


def _reached(pool: Pool) -> Fields:
    """Return a pool with only the members that nodes can reach."""
    return {**pool, 'members': {
        key: {name: value for name, value in member.items() if name != 'way'}
        for key, member in pool['members'].items() if is_reached(member)}}


def is_zero_touch(doc: Document) -> bool:
    """Return whether a controller decides how each member is reached."""
    return bool(flavor.value(doc['flavor'], 'zero_touch') != 'off')


def spread(doc: Document) -> str | None:
    """Return how nodes are spread over zones; None: as [placement] spread.

    A load balancer that asks for a zone is in that zone only.
    """
    if doc.get('availability_zone', {}).get('zone'):
        return 'off'
    return doc['flavor'].get('spread')


def is_reached(member: Member) -> bool:
    """Return whether nodes are sent a member of a zero_touch flavor."""
    return 'tunnel' in member or member.get('way') == 'direct'


def undecided(doc: Document) -> set[str]:
    """Return the ids of members for which a controller has not decided yet
    how they are reached."""
    if not is_zero_touch(doc):
        return set()
    return {key for pool in doc['pools'].values()
            for key, member in pool['members'].items()
            if 'tunnel' not in member and 'way' not in member}.union(
                *(awaiting_keys(doc, key) for key in doc['listeners']))


def awaiting_keys(doc: Document, listener_id: str) -> Iterator[str]:
    """Yield the ids of members whose tunnel lacks a key for this listener and
    any VIP. Until then nodes are not sent the listener."""
    addresses = vips(doc)
    for pool in pools_of(doc, doc['listeners'][listener_id]):
        if pool.get('proxies'):
            continue
        for key, member in pool['members'].items():
            if 'tunnel' in member and any(
                    tunnel_key(doc, member['tunnel'], listener_id, vip)
                    is None for vip in addresses):
                yield key


def _flavor_idle_time(doc: Document) -> int:
    return int(flavor.value(doc['flavor'], 'idle_timeout'))


def idle_time(doc: Document, listener: Listener) -> int:
    """Return the idle seconds for which a listener's flow is remembered,
    unless the pool's persistence overrides them.

    It is the flavor's value; if the flavor has none, the default, but at
    least as long as either end may be silent.
    """
    if 'idle_timeout' in doc['flavor']:
        return _flavor_idle_time(doc)
    return max(_flavor_idle_time(doc), longest_silence(listener))


def longest_silence(listener: Listener) -> int:
    """Return the seconds for which either end of a listener's flow may be
    silent, capped at the longest idle time."""
    longest_ms = max(listener['timeout_client_data'] or 0,
                     listener['timeout_member_data'] or 0)
    return min(-(-longest_ms // 1000), flavor.IDLE_TIMEOUT_MAX)


def objects(doc: Document) -> set[Object]:
    """Return every object of the document, as a set of (kind, id)."""
    result: set[Object] = {('loadbalancer', doc['id'])}
    for listener_id, listener in doc['listeners'].items():
        result.add(('listener', listener_id))
        for policy_id, policy in listener.get('l7policies', {}).items():
            result.add(('l7policy', policy_id))
            result.update(('l7rule', key) for key in policy['rules'])
    for pool_id, pool in doc['pools'].items():
        result.add(('pool', pool_id))
        result.update(('member', key) for key in pool['members'])
        if pool['healthmonitor']:
            result.add(('healthmonitor', pool['healthmonitor']['id']))
    return result


@functools.lru_cache(maxsize=1 << 16)
def _canonical(address: str) -> str:
    return str(ipaddress.ip_address(address))


def vips(doc: Document) -> list[str]:
    """Return all VIPs, the primary one first, in canonical spelling."""
    return [str(ipaddress.ip_address(address)) for address in (
        doc['vip_address'], *(
            vip['ip_address'] for vip in doc['additional_vips']))]


def member_addresses(doc: Document) -> set[str]:
    """Return all addresses that packets or probes go to, or would if enabled,
    in canonical spelling."""
    return {_canonical(address)
            for pool in doc['pools'].values()
            for member in pool['members'].values()
            for address in (reached_at(member), member['monitor_address'])
            if address}


def has_tunnels(doc: Document) -> bool:
    return any('tunnel' in member for pool in doc['pools'].values()
               for member in pool['members'].values())


def reached_at(member: Member) -> str:
    """Return the address that packets to a member are sent to."""
    return member['tunnel']['address'] if 'tunnel' in member else (
        member['address'])


def is_keyed(member: Member) -> bool:
    """Return whether the end of a member's tunnel identifies it by a key and
    writes its port."""
    return 'tunnel' in member and bool(
        member['tunnel'].get('key') or member['tunnel'].get('keys'))


def tunnel_key(doc: Document, tunnel: Tunnel, listener_id: str, vip: str
               ) -> int | None:
    """Return the key of packets from a listener.

    :param vip: destination of the packets, in canonical spelling.
    """
    keys = (tunnel.get('keys', {})
            if vip == _canonical(doc['vip_address'])
            else tunnel.get('additional_keys', {}).get(vip, {}))
    return keys.get(listener_id, tunnel.get('key'))


def pools_of(doc: Document, listener: Listener) -> list[Pool]:
    """Return the pools whose members a listener sends traffic to."""
    names = {listener['default_pool_id'] or '', *(
        policy['redirect_pool_id'] or ''
        for policy in listener.get('l7policies', {}).values())}
    return [doc['pools'][key] for key in sorted(names & doc['pools'].keys())]


def forwarded(doc: Document) -> Iterator[tuple[str, Listener, Pool]]:
    """Yield id, listener and pool of every listener that takes packets."""
    if not doc['admin_state_up']:
        return
    for listener_id, listener in doc['listeners'].items():
        if not listener['admin_state_up']:
            continue
        for pool in pools_of(doc, listener):
            if pool['admin_state_up']:
                yield listener_id, listener, pool


# Fields that Octavia's look-up does not return as the document has them: it
# has the zone's name, and a flavor without the operator's defaults.
KEPT = ('flavor', 'availability_zone', 'announcing', 'proxies', 'moved')


# Bundles that a controller has (contracts/sealed.py), by kind of object: the
# field, and that of the reference from which the bundle was made.
BUNDLES: dict[str, dict[str, str]] = {
    'listener': {'default_tls_bundle': 'default_tls_container_ref',
                 'sni_bundles': 'sni_container_refs',
                 'client_ca_bundle': 'client_ca_tls_container_ref',
                 'client_crl_bundle': 'client_crl_container_ref'},
    'pool': {'tls_bundle': 'tls_container_ref',
             'ca_bundle': 'ca_tls_container_ref',
             'crl_bundle': 'crl_container_ref'},
}

_NOT_COMPARED = frozenset((
    'listeners', 'pools', 'members', 'healthmonitor', 'l7policies', 'rules',
    'version', 'tunnel', 'way', 'token', *KEPT, *BUNDLES['listener'],
    *BUNDLES['pool']))


def has_references(doc: Document) -> bool:
    """Return whether a listener or a pool has a certificate."""
    kinds: Any = (('listener', doc['listeners']), ('pool', doc['pools']))
    return any(item.keys() & BUNDLES[kind].values()
               for kind, items in kinds for item in items.values())


def _policies(doc: Document) -> dict[str, l7_types.Policy]:
    return {key: policy for listener in doc['listeners'].values()
            for key, policy in listener.get('l7policies', {}).items()}


def as_committed(ours: Document, octavias: Document) -> Document:
    """Return a document that Octavia has committed, with the fields that
    Octavia does not return taken from ours."""
    result: Fields = dict(octavias)
    given: Fields = dict(ours)
    result.update((name, copy.deepcopy(given[name]))
                  for name in KEPT if name in given)
    for kind in BUNDLES:
        _keep_bundles(kind, given, result)
    if has_tunnels(ours) or is_zero_touch(ours):
        result['pools'] = copy.deepcopy(result['pools'])
        for pool_id, pool in result['pools'].items():
            members = ours['pools'].get(pool_id, {'members': {}})['members']
            for key in pool['members'].keys() & members.keys():
                pool['members'][key].update(cast(Any, copy.deepcopy(
                    {name: members[key].get(name)
                     for name in ('tunnel', 'way', 'token')
                     if name in members[key]})))
    return cast(Document, result)


def _keep_bundles(kind: str, ours: Fields, result: Fields) -> None:
    """Keep the bundles of references that are the same."""
    items: Fields = ours[f'{kind}s']
    kept: dict[str, Fields] = {key: {
        bundle: items[key][bundle]
        for bundle, reference in BUNDLES[kind].items()
        if bundle in items[key]
        and items[key].get(reference) == item.get(reference)}
        for key, item in result[f'{kind}s'].items() if key in items}
    if any(kept.values()):
        result[f'{kind}s'] = {key: {**item, **kept.get(key, {})}
                              for key, item in result[f'{kind}s'].items()}


def differences(doc: Document, other: Document) -> list[str]:
    """Return how two documents of one load balancer differ, as texts.

    Only fields of ``doc`` and those of layer 7 are compared, and null equals
    absent: Octavia's database returns more fields, and nulls for those that
    were never set. ``KEPT`` fields are not compared, nor are tunnels and ways,
    which Octavia does not have, nor bundles, which follow from references.
    """
    result: list[str] = []
    for kind, key in sorted(objects(doc) ^ objects(other)):
        result.append(f'{kind} {key}')

    def compare(path: str, left: Any, right: Any, kind: str = '') -> None:
        for name in dict.fromkeys([*left, *L7_DEFAULTS.get(kind, ())]):
            if name in _NOT_COMPARED:
                continue
            if left.get(name) != right.get(name):
                result.append(f'{path}.{name}')

    compare('loadbalancer', doc, other)
    for key in doc['listeners'].keys() & other['listeners'].keys():
        compare(f'listener {key}', doc['listeners'][key],
                other['listeners'][key], 'listener')
    policies, other_policies = _policies(doc), _policies(other)
    for key in policies.keys() & other_policies.keys():
        compare(f'l7policy {key}', policies[key], other_policies[key])
        rules, other_rules = policies[key]['rules'], (
            other_policies[key]['rules'])
        for rule in rules.keys() & other_rules.keys():
            compare(f'l7rule {rule}', rules[rule], other_rules[rule])
    for key in doc['pools'].keys() & other['pools'].keys():
        pool, other_pool = doc['pools'][key], other['pools'][key]
        compare(f'pool {key}', pool, other_pool, 'pool')
        for member in pool['members'].keys() & other_pool['members'].keys():
            compare(f'member {member}', pool['members'][member],
                    other_pool['members'][member])
        if pool['healthmonitor'] and other_pool['healthmonitor']:
            compare(f'healthmonitor of pool {key}', pool['healthmonitor'],
                    other_pool['healthmonitor'])
    return result
