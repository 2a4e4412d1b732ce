# SPDX-License-Identifier: Apache-2.0
"""What nodes of each tier are sent of a load balancer's document.

LB nodes get a document of layer 4 alone (``for_lb_node``), in which proxy
nodes are the members of a listener that they serve; proxy nodes get those
listeners (``for_proxy``). All functions are pure.
"""

from collections.abc import Mapping
import ipaddress
from typing import Any
from typing import cast
import uuid

from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers

_NAMESPACE = uuid.UUID('6a0d3b0e-6d0c-5b43-9a5e-0c1f5e3b7d21')

# How LB nodes probe a proxy: HAProxy itself must answer. One that does not is
# out after two probes, within 2 seconds.
_MONITOR: spec.HealthMonitor = {
    'id': '', 'admin_state_up': True, 'type': 'HTTP', 'delay': 1,
    'timeout': 1, 'max_retries': 1, 'max_retries_down': 2,
    'http_method': 'GET', 'url_path': '/', 'expected_codes': '200',
    'http_version': 1.0, 'domain_name': None}
_ENCAPSULATION = 'gue'
_ABSENT_IN_LAYER_4 = {kind: frozenset(names)
                      for kind, names in spec.L7_DEFAULTS.items()}
_LAYER_4_POOLS = ('TCP', 'UDP', 'SCTP', 'HTTPS')


def proxy_pool_id(listener_id: str) -> str:
    """Return the id of the pool of proxy nodes, a UUIDv5 (RFC 9562)."""
    return str(uuid.uuid5(_NAMESPACE, listener_id))


def proxy_member_id(listener_id: str, host: str) -> str:
    """Return the id of a proxy node as a member of a listener's pool."""
    return str(uuid.uuid5(_NAMESPACE, f'{listener_id} {host}'))


def for_lb_node(doc: spec.Document) -> spec.Document:
    """Return what LB nodes forward of a load balancer.

    A proxied listener is one of TCP, whose members are the proxy nodes; it is
    left out until all of these serve it, unless LB nodes served it alone
    before: then they go on. ``spec.for_node`` makes the message of the result.
    """
    proxied = set(tiers.proxied_listeners(doc))
    moved = doc.get('moved', {})
    if not proxied and not moved:
        return _layer_4(doc)
    result: Any = dict(doc)
    result.pop('proxies', None)
    result.pop('moved', None)
    proxies = _proxies(doc)
    used = tiers.pool_ids(doc, proxied=False)
    unused = doc['pools'].keys() - tiers.pool_ids(doc, proxied=True)
    result['pools'] = {
        key: _without_layer_7('pool', pool)
        for key, pool in doc['pools'].items()
        if (key in used or key in unused)
        and pool['protocol'] in _LAYER_4_POOLS}
    result['listeners'] = {}
    version = ipaddress.ip_address(doc['vip_address']).version
    for key, listener in doc['listeners'].items():
        view = _without_layer_7('listener', listener)
        pool_id = listener['default_pool_id'] or ''
        if key in proxied:
            if key in proxies['listeners'] and proxies['nodes']:
                pool = _with_former(doc, _pool(
                    key, listener, doc['pools'].get(pool_id), version,
                    proxies['nodes']), moved.get(key))
                pool_id = proxy_pool_id(key)
                view['protocol'] = 'TCP'
            else:
                pool_id = proxies.get('moving', {}).get(key, '')
                former = doc['pools'].get(pool_id)
                if former is None or former['protocol'] not in _LAYER_4_POOLS:
                    continue
                pool = _by_hash(former)
            view.update(default_pool_id=pool_id, connection_limit=None)
            result['pools'][pool_id] = pool
        elif key in moved and pool_id in result['pools']:
            view['default_pool_id'] = proxy_pool_id(key)
            result['pools'][proxy_pool_id(key)] = _with_former(
                doc, result['pools'][pool_id], moved[key])
        result['listeners'][key] = view
    return cast(spec.Document, result)


def _with_former(doc: spec.Document, pool: spec.Pool,
                 moved: spec.Moved | None) -> spec.Pool:
    """Return a pool with the members of the tier that served its listener
    before, which keep the connections that they have."""
    # No tunnel rewrites the DSCP.
    if moved is None or (pool.get('proxies') and 'dscp' in doc['flavor']):
        return pool
    members = {key: _leaving(doc, pool, member)
               for key, member in moved['pool']['members'].items()}
    return {**pool, 'members': {**members, **pool['members']}}


def _leaving(doc: spec.Document, pool: spec.Pool, member: spec.Member
             ) -> spec.Member:
    """Return a member without new connections. Among proxies, of whose way the
    flavor says nothing, it has a tunnel that is what the flavor says."""
    result: Any = {**member, 'weight': 0, 'backup': False, 'leaving': True}
    if pool.get('proxies') and 'tunnel' not in member:
        encapsulation = flavor.value(doc['flavor'], 'encapsulation')
        result['tunnel'] = {
            'address': _outer_address(doc, member),
            'encapsulation': encapsulation,
            'takes_alternative': bool(
                flavor.value(doc['flavor'], 'second_chance'))}
    return cast(spec.Member, result)


def _outer_address(doc: spec.Document, member: spec.Member) -> str:
    function = flavor.value(doc['flavor'], 'srv6_function')
    if not function:
        return member['address']
    return str(ipaddress.IPv6Address(
        int(ipaddress.IPv6Address(member['address'])) & ~0xffff | function))


def _by_hash(pool: spec.Pool) -> spec.Pool:
    """Return a pool as LB nodes can serve it until proxy nodes do."""
    result = cast(spec.Pool, _without_layer_7('pool', pool))
    persistence = pool['session_persistence']
    if persistence and persistence['type'] != 'SOURCE_IP':
        result['session_persistence'] = None
    if pool['lb_algorithm'] != 'SOURCE_IP':
        result['lb_algorithm'] = 'SOURCE_IP_PORT'
    return result


def with_moves(before: spec.Document | None, after: spec.Document
               ) -> spec.Document:
    """Return a changed document in which listeners that the change moves from
    LB nodes to proxy nodes are marked as moving."""
    moving = {} if before is None else {
        key: pool_id for key in tiers.proxied_listeners(after)
        if key in before['listeners']
        and (pool_id := before['listeners'][key]['default_pool_id'])
        and tiers.tier(before, key) == tiers.DATAPATH}
    if not moving:
        return after
    proxies = _proxies(after)
    return {**after, 'proxies': {**proxies, 'moving': {
        **proxies.get('moving', {}), **moving}}}


def _proxies(doc: spec.Document) -> spec.Proxies:
    proxies = doc.get('proxies')
    return {'nodes': {}, 'listeners': []} if proxies is None else proxies


def _layer_4(doc: spec.Document) -> spec.Document:
    """Return a document without layer-7 fields, which is most often itself."""
    kinds: Any = (('listener', doc['listeners']), ('pool', doc['pools']))
    if not doc.keys() & {'proxies', 'moved'} and not any(
            item.keys() & _ABSENT_IN_LAYER_4[kind]
            for kind, items in kinds for item in items.values()):
        return doc
    result: Any = dict(doc)
    result.pop('proxies', None)
    result.pop('moved', None)
    for kind, items in kinds:
        result[f'{kind}s'] = {key: _without_layer_7(kind, item)
                              for key, item in items.items()}
    return cast(spec.Document, result)


def _without_layer_7(kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items()
            if name not in _ABSENT_IN_LAYER_4[kind]}


def _pool(listener_id: str, listener: spec.Listener,
          pool: spec.Pool | None, version: int,
          nodes: Mapping[str, spec.ProxyNode]) -> spec.Pool:
    """:param pool: of the listener.

    :param version: the IP version of tunnels, if a node has both.
    """
    pool_id = proxy_pool_id(listener_id)
    return {
        'admin_state_up': True, 'protocol': 'TCP', 'proxies': True,
        **_choice(listener, pool),  # type: ignore[typeddict-item]
        'members': {
            proxy_member_id(listener_id, host): _member(
                listener, _address(node, version), node['weight'])
            for host, node in nodes.items()},
        'healthmonitor': {**_MONITOR, 'id': pool_id}}


def _choice(listener: spec.Listener, pool: spec.Pool | None
            ) -> dict[str, Any]:
    """Return how proxies are chosen.

    A listener that LB nodes could serve alone, too, has its clients at the
    same places of the tables as then.
    """
    result: dict[str, Any] = {'lb_algorithm': 'SOURCE_IP_PORT',
                              'session_persistence': None}
    if pool is None or listener['protocol'] in tiers.PROXIED_PROTOCOLS:
        return result
    if pool['lb_algorithm'] == 'SOURCE_IP':
        result['lb_algorithm'] = 'SOURCE_IP'
    persistence = pool['session_persistence']
    if persistence and persistence['type'] == 'SOURCE_IP':
        result['session_persistence'] = persistence
    return result


def _member(listener: spec.Listener, address: str, weight: int
            ) -> spec.Member:
    return {
        'admin_state_up': True, 'address': address,
        'protocol_port': listener['protocol_port'], 'weight': weight,
        'backup': False, 'monitor_address': None,
        'monitor_port': proxy_spec.HEALTH_PORT,
        'tunnel': {'address': address, 'encapsulation': _ENCAPSULATION,
                   'takes_alternative': True}}


def _address(node: spec.ProxyNode, version: int) -> str:
    return next((address for address in node['addresses']
                 if ipaddress.ip_address(address).version == version),
                node['addresses'][0])


def for_proxy(doc: spec.Document) -> proxy_spec.Document:
    """Return what proxy nodes serve of a load balancer; it has no listeners
    if that is nothing.

    They serve a listener that needs them no more until LB nodes send them no
    connections of it, and those that they have as long as it has moved.
    """
    result: Any = {
        name: doc[name] for name in (
            'id', 'name', 'project_id', 'admin_state_up', 'vip_address')
        if name in doc}
    result['version'] = proxy_spec.VERSION
    result['additional_vips'] = sorted(
        vip['ip_address'] for vip in doc['additional_vips'])
    proxies = _proxies(doc)
    result['nodes'] = sorted(proxies['nodes'])
    if chosen := flavor.for_proxies(doc['flavor']):
        result['flavor'] = chosen
    moved = [key for key, entry in doc.get('moved', {}).items()
             if entry['pool'].get('proxies')]
    leaving = {key: doc['listeners'][key]
               for key in (*proxies['listeners'], *moved)
               if key in doc['listeners']}
    result['listeners'] = {
        key: _pick(proxy_spec.Listener, 'listener', doc['listeners'][key])
        for key in sorted({*tiers.proxied_listeners(doc), *leaving})}
    pools = tiers.pool_ids(doc, proxied=True) | {
        listener['default_pool_id'] for listener in leaving.values()}
    result['pools'] = {key: _proxied_pool(doc, pool) for key, pool
                       in sorted(doc['pools'].items()) if key in pools}
    return cast(proxy_spec.Document, result)


def _proxied_pool(doc: spec.Document, pool: spec.Pool) -> dict[str, Any]:
    result = _pick(proxy_spec.Pool, 'pool', pool)
    persistence = pool['session_persistence']
    result['session_persistence'] = persistence and {
        'type': persistence['type'],
        'cookie_name': persistence.get('cookie_name')}
    result['members'] = {
        key: _proxied_member(member)
        for key, member in pool['members'].items()
        # Another server may have the address of a VM behind a hypervisor.
        if 'token' in member or member.get('way') == 'direct'
        or not spec.is_zero_touch(doc)}
    return result


def _proxied_member(member: spec.Member) -> dict[str, Any]:
    result: dict[str, Any] = {
        name: member[name]  # type: ignore[literal-required]
        for name in proxy_spec.Member.__annotations__
        if name not in ('token', 'tunnel')}
    if 'token' in member:
        result['token'] = member['token']
        result['tunnel'] = {
            name: member['tunnel'][name]  # type: ignore[literal-required]
            for name in proxy_launch.Tunnel.__annotations__}
    return result


def _pick(shape: Any, kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a type, with defaults for those that are absent.

    Empty lists of versions, ciphers and protocols are no choice: null.
    """
    defaults = spec.L7_DEFAULTS[kind]
    return {name: item.get(name, _null(name, defaults.get(name)))
            for name in shape.__annotations__}


def _null(name: str, default: object) -> object:
    return None if name in ('tls_versions', 'alpn_protocols') else default
