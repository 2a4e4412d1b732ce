# SPDX-License-Identifier: Apache-2.0
"""Rules that span several objects of a document: ``check``.

Most follow from two facts: members answer clients directly, so that nothing
on the way can change an answer; and LB nodes share no state.
"""

from collections.abc import Iterable
import ipaddress

from octavia_xdp_provider.api import connections
from octavia_xdp_provider.api import nat
from octavia_xdp_provider.api import tunnels
from octavia_xdp_provider.api import zero_touch
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import persistence
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.contracts import spec

# OXP_MEMBERS_MAX of the datapath, per service
# (datapath/include/octavia_xdp.h).
MEMBERS_MAX = 4096

# Low bits of a member's address that an SRv6 function replaces.
_FUNCTION_BITS = 16


def check(doc: spec.Document) -> None:
    """:raises Refused: names the option that breaks a rule."""
    vips = [ipaddress.ip_address(address) for address in spec.vips(doc)]
    if len(set(vips)) < len(vips):
        raise errors.Refused('additional_vips', 'one address is there twice',
                             'name each address once')
    _spread(doc)
    zero_touch.check(doc)
    nat.check(doc)
    connections.check(doc)
    for pool in doc['pools'].values():
        _algorithm(doc, pool)
        _pool(doc, vips, pool)
    for listener_id, listener in doc['listeners'].items():
        _allowed_cidrs(vips, listener)
        _no_layer_7(doc, listener)
        for pool in spec.pools_of(doc, listener):
            _same_protocol(listener, pool)
            _addresses(doc, pool)
            if not any(True for _ in _awaiting_keys(doc, listener_id)):
                for vip in vips:
                    tunnels.check(doc, listener_id, str(vip), pool)
            if flavor.is_nat(doc['flavor']):
                continue  # members have ports of their own
            if (flavor.value(doc['flavor'], 'member_port') == 'same'
                    or transport(listener['protocol']) == 'SCTP'):
                _same_ports(doc, listener, pool)
    if flavor.value(doc['flavor'], 'member_port') != 'same':
        _check_answer_ports(doc)


def check_proxied(doc: spec.Document) -> None:
    """Check what LB nodes do for proxied listeners, and members of proxies.

    :raises Refused: names the option that breaks a rule.
    """
    zero_touch.check(doc)
    vips = [ipaddress.ip_address(address) for address in spec.vips(doc)]
    for listener in doc['listeners'].values():
        _allowed_cidrs(vips, listener)
        if listener['protocol_port'] == proxy_spec.HEALTH_PORT and (
                transport(listener['protocol']) not in _PACKETS):
            raise errors.Refused(
                'protocol_port', f'at port {proxy_spec.HEALTH_PORT} LB nodes '
                'find out whether the load balancer\'s proxies work',
                'use another port')
    for pool in doc['pools'].values():
        _members(vips, pool)


def _no_layer_7(doc: spec.Document, listener: spec.Listener) -> None:
    """Refuse what LB nodes cannot do, and proxies do not for this protocol."""
    if listener.get('l7policies'):
        raise errors.Refused(
            'l7policies', f'a listener with protocol {listener["protocol"]} '
            'does not read requests', 'use protocol HTTP or TERMINATED_HTTPS')
    for pool in spec.pools_of(doc, listener):
        if pool.get('tls_enabled'):
            raise errors.Refused(
                'tls_enabled', f'{listener["protocol"]} has no TLS that a '
                'proxy could do', 'leave it out')


def _spread(doc: spec.Document) -> None:
    """Refuse an availability zone that excludes what the flavor requires.
    """
    zone = doc.get('availability_zone', {}).get('zone')
    metadata = doc['flavor']
    if (zone and metadata.get('spread') == 'require'
            and metadata.get('replicas') != 1):
        raise errors.Refused(
            'availability_zone', f'it keeps the load balancer in zone {zone}, '
            'while its flavor requires LB nodes in different zones',
            'use another flavor, or no availability zone')


def subnet_problem(doc: spec.Document) -> errors.Problem | None:
    """Return a problem if members of both IP versions name one subnet.

    Only controllers check this; nodes do not use ``subnet_id``.

    Members are reached by routing and may be anywhere behind their subnet, so
    its prefix does not restrict their addresses. The VIP's subnet is exempt:
    clients that know no other subnet name it for members of both versions.
    """
    families: dict[str, tuple[int, str]] = {}
    for pool in doc['pools'].values():
        for member in pool['members'].values():
            subnet = member.get('subnet_id')
            if not subnet or subnet in _vip_subnets(doc):
                continue
            version = ipaddress.ip_address(member['address']).version
            known, whose = families.setdefault(
                subnet, (version, member['address']))
            if known != version:
                return (f'{member["address"]} is an IPv{version} address, '
                        f'and subnet {subnet} has IPv{known} addresses, '
                        f'among them {whose}',
                        'name the subnet of the member\'s own family')
    return None


def _vip_subnets(doc: spec.Document) -> set[str | None]:
    return {doc.get('vip_subnet_id'), *(
        vip.get('subnet_id') for vip in doc['additional_vips'])}


def _algorithm(doc: spec.Document, pool: spec.Pool) -> None:
    """Refuse algorithms that LB nodes do not implement, unless the operator
    has declared that they are served by a hash."""
    if pool['protocol'] in _PACKETS:
        return  # No proxy serves them.
    algorithm = pool['lb_algorithm']
    served = flavor.value(doc['flavor'], 'algorithms_served_by_hash')
    if algorithm in flavor.ALGORITHMS or algorithm in served:
        return
    raise errors.Refused(
        'lb_algorithm', f'the value {algorithm!r} is not supported: every LB '
        'node picks a flow\'s member by a consistent hash of its addresses '
        'and ports, without shared state, so that nodes agree and flows stay',
        'use SOURCE_IP_PORT, which spreads flows by the members\' weights, or '
        'SOURCE_IP, or a flavor that leaves forwarding open, with which '
        'proxies serve it')


# Protocols without connections that a proxy could end.
_PACKETS = ('UDP', 'SCTP')
_TRANSPORTS = {'HTTPS': 'TCP', 'HTTP': 'TCP', 'TERMINATED_HTTPS': 'TCP',
               'PROMETHEUS': 'TCP'}


def transport(protocol: str) -> str:
    """Return the protocol in packet headers."""
    return _TRANSPORTS.get(protocol, protocol)


def _same_protocol(listener: spec.Listener, pool: spec.Pool) -> None:
    if transport(pool['protocol']) != transport(listener['protocol']):
        raise errors.Refused(
            'protocol', f'a {listener["protocol"]} listener cannot use a '
            f'{pool["protocol"]} pool, packets are forwarded as they are',
            'give both the same protocol')


def concerns_others(doc: spec.Document) -> bool:
    """Return whether ``validate_together`` can refuse a document."""
    return 'dscp' in doc['flavor']


def validate_together(doc: spec.Document, other: spec.Document) -> None:
    """Check a document against another load balancer's.

    With encapsulation dscp a member can tell only by the DSCP which VIP a
    packet was for.

    :raises Refused: a member could not distinguish the two VIPs.
    """
    code = doc['flavor'].get('dscp')
    if code is None or code != other['flavor'].get('dscp'):
        return
    shared = _rewritten_addresses(doc) & _rewritten_addresses(other)
    if shared:
        # A more specific reason would reveal other tenants' servers.
        raise errors.Refused('address', *address_policy.closed(
            min(shared), f'it is a member of load balancer {other["id"]}, '
            f'whose packets have DSCP {code} as well, and could not '
            'distinguish the two VIPs'))


def _rewritten_addresses(doc: spec.Document) -> set[str]:
    """Return addresses of members that packets reach without a tunnel."""
    return {member['address'] for pool in doc['pools'].values()
            for member in pool['members'].values() if 'tunnel' not in member}


def _members(vips: list[address_policy.Address], pool: spec.Pool) -> None:
    if len(pool['members']) > MEMBERS_MAX:
        raise errors.Refused(
            'members', f'a pool holds at most {MEMBERS_MAX} members',
            'split the pool over several load balancers')
    for member in pool['members'].values():
        address = ipaddress.ip_address(member['address'])
        if address in vips:
            raise errors.Refused(
                'address', f'{address} is the VIP itself',
                'use the member\'s own address')


def _pool(doc: spec.Document, vips: list[address_policy.Address],
          pool: spec.Pool) -> None:
    _members(vips, pool)
    encapsulation = flavor.value(doc['flavor'], 'encapsulation')
    for member in pool['members'].values():
        address = ipaddress.ip_address(member['address'])
        if 'tunnel' in member:
            tunnels.check_end(vips, member)
            continue
        if _is_elsewhere(doc, member):
            continue
        if encapsulation == 'srv6' and address.version != 6:
            raise errors.Refused(
                'address', f'{address} is no IPv6 address, and the load '
                'balancer\'s flavor sends packets to SRv6 SIDs',
                'use the member\'s SID as its address, or a load balancer '
                'with another flavor')
        if encapsulation == 'dscp':
            _one_family(address, vips)
    _persistence(vips, pool['session_persistence'])


def _one_family(address: address_policy.Address,
                vips: list[address_policy.Address]) -> None:
    for vip in vips:
        if address.version != vip.version:
            raise errors.Refused(
                'address', f'{address} is not of the family of the VIP '
                f'{vip}, and the load balancer\'s flavor rewrites addresses '
                '(encapsulation dscp)', f'use an IPv{vip.version} address, '
                'or a load balancer with another flavor or VIPs of one '
                'family')


def _versions(vips: list[address_policy.Address]) -> str:
    return ' and '.join(f'IPv{version}' for version in sorted(
        {vip.version for vip in vips}))


def _persistence(vips: list[address_policy.Address],
                 given: spec.SessionPersistence | None) -> None:
    if given is None:
        return
    if given['type'] is None:
        raise errors.Refused(
            'session_persistence', 'it has no type', 'use type SOURCE_IP')
    if given['type'] != 'SOURCE_IP':
        raise errors.Refused(
            'session_persistence', f'type {given["type"]} needs cookies, '
            'which the headers of packets do not have', 'use type SOURCE_IP')
    granularity = given['persistence_granularity']
    if granularity is None:
        return
    version, _length = persistence.prefix(granularity)
    if all(version != vip.version for vip in vips):
        raise errors.Refused(
            'session_persistence', f'persistence_granularity {granularity} '
            f'is an IPv{version} netmask and clients have {_versions(vips)} '
            'addresses, as the VIP',
            f'use an {_versions(vips)} netmask')


def _allowed_cidrs(vips: list[address_policy.Address],
                   listener: spec.Listener) -> None:
    for text in listener['allowed_cidrs'] or ():
        version = ipaddress.ip_network(text).version
        if all(version != vip.version for vip in vips):
            raise errors.Refused(
                'allowed_cidrs', f'{text} is an IPv{version} network and '
                f'clients have {_versions(vips)} addresses, as the VIP',
                f'use {_versions(vips)} networks')


def port_on_node(doc: spec.Document, pool: spec.Pool, member: spec.Member
                 ) -> int:
    """Return the port in a node's key of a member of a pool, or 0.

    If it is not 0, a pool may have an address with several ports: either the
    node or the end of a keyed tunnel writes the port into packets.
    """
    # Former members of the other tier are in the pool as well.
    is_proxy = pool.get('proxies', False) != member.get('leaving', False)
    if transport(pool['protocol']) == 'SCTP' or is_proxy or not (
            flavor.value(doc['flavor'], 'member_port') == 'rewrite'
            or flavor.is_nat(doc['flavor'])
            or spec.is_keyed(member) or _is_elsewhere(doc, member)):
        return 0
    return member['protocol_port']


def _awaiting_keys(doc: spec.Document, listener_id: str) -> Iterable[str]:
    """Return members that lack a key for a listener, so that nodes are not
    sent the listener yet."""
    return spec.awaiting_keys(doc, listener_id) if (
        spec.is_zero_touch(doc)) else ()


def _is_elsewhere(doc: spec.Document, member: spec.Member) -> bool:
    """Return whether nodes do not have the member, or do not identify it by
    address and port: a controller decides which members they are sent."""
    return spec.is_zero_touch(doc) and member.get('way') != 'direct'


def _addresses(doc: spec.Document, pool: spec.Pool) -> None:
    """Refuse members of a pool whose packets would have one destination."""
    function = flavor.value(doc['flavor'], 'srv6_function')
    seen: dict[tuple[int, int, int], address_policy.Address] = {}
    for member in pool['members'].values():
        address = ipaddress.ip_address(member['address'])
        target = int(address) >> (
            _FUNCTION_BITS if function and 'tunnel' not in member else 0)
        port = port_on_node(doc, pool, member)
        key = (address.version, target, port)
        if seen.get(key) == address:
            if port:
                raise errors.Refused(
                    'protocol_port', f'two members of a pool have {address} '
                    f'and port {port}', 'add each once and use weight for a '
                    'larger share')
            raise errors.Refused(
                'address', f'two members of a pool have {address}',
                'add each address once and use weight for a larger share; '
                'servers on several ports of an address need a flavor with '
                'member_port rewrite')
        if key in seen:
            raise errors.Refused(
                'address', f'{address} and {seen[key]} differ only in the '
                f'last {_FUNCTION_BITS} bits, of which the flavor\'s '
                'srv6_function takes the place: both would be one SID',
                'use addresses with different locators')
        seen[key] = address


def _same_ports(doc: spec.Document, listener: spec.Listener,
                pool: spec.Pool) -> None:
    if transport(listener['protocol']) == 'SCTP':
        why = ('SCTP\'s checksum covers the whole packet, so that no flavor '
               'has its ports rewritten')
        instead = 'let the member listen on the listener\'s port'
    else:
        why = ('by default members answer clients directly, so that both '
               'ports must be the same')
        instead = ('let the member listen on the listener\'s port, or use a '
                   'flavor with member_port rewrite, zero_touch or '
                   'forwarding nat')
    for member in pool['members'].values():
        if listener['protocol'] != 'SCTP' and (
                spec.is_keyed(member) or _is_elsewhere(doc, member)):
            continue  # the end of its tunnel rewrites the port
        if member['protocol_port'] != listener['protocol_port']:
            raise errors.Refused(
                'protocol_port',
                f'member {member["address"]} has port '
                f'{member["protocol_port"]}, its listener '
                f'{listener["protocol_port"]}; {why}', instead)


def _check_answer_ports(doc: spec.Document) -> None:
    """Refuse a member port that serves two listeners: an answer carries only
    the member's port, which must determine the listener's."""
    listeners: dict[tuple[str, address_policy.Address, int], int] = {}
    for listener in doc['listeners'].values():
        for pool in spec.pools_of(doc, listener):
            for member in pool['members'].values():
                if spec.is_keyed(member) or _is_elsewhere(doc, member):
                    continue  # the end of its tunnel remembers flows
                key = (transport(listener['protocol']),
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
