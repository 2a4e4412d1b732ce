# SPDX-License-Identifier: Apache-2.0
"""Rules of the wanted state that span several objects.

What one option may be by itself is ``driver/support.py``'s.
"""

import ipaddress

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import persistence
from octavia_xdp_provider.common import spec

# A table of the datapath addresses its members by this many indices
# (OXP_MEMBERS_MAX in datapath/include/octavia_xdp.h).
MEMBERS_MAX = 256

# The part of a member's address that an SRv6 function takes the place of.
_FUNCTION_BITS = 16


def validate(doc):
    """Check a document.

    :raises Refused: names the option that breaks a rule.
    """
    vip = ipaddress.ip_address(doc['vip_address'])
    for pool in doc['pools'].values():
        _pool(doc, vip, pool)
    for listener in doc['listeners'].values():
        _allowed_cidrs(vip, listener)
        for pool in spec.pools_of(doc, listener):
            if pool['protocol'] != listener['protocol']:
                raise errors.Refused(
                    'protocol', f'a {listener["protocol"]} listener cannot '
                    f'use a {pool["protocol"]} pool, packets are forwarded '
                    'as they are', 'give both the same protocol')
            _addresses(doc, pool)
            if flavor.value(doc['flavor'], 'member_port') == 'same':
                _same_ports(listener, pool)
    if flavor.value(doc['flavor'], 'member_port') == 'rewrite':
        _answers_name_their_listener(doc)


def concerns_others(doc):
    """Whether ``validate_together`` can say anything about a document."""
    return 'dscp' in doc['flavor']


def validate_together(doc, other):
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


def _member_addresses(doc):
    return {member['address'] for pool in doc['pools'].values()
            for member in pool['members'].values()}


def _pool(doc, vip, pool):
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


def _persistence(vip, given):
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


def _allowed_cidrs(vip, listener):
    for text in listener['allowed_cidrs'] or ():
        version = ipaddress.ip_network(text).version
        if version != vip.version:
            raise errors.Refused(
                'allowed_cidrs', f'{text} is an IPv{version} network and '
                f'clients of the VIP {vip} have IPv{vip.version} addresses',
                f'use IPv{vip.version} networks')


def _addresses(doc, pool):
    """Within a service, members are distinguished by where packets go."""
    function = flavor.value(doc['flavor'], 'srv6_function')
    seen = {}
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


def _same_ports(listener, pool):
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


def _answers_name_their_listener(doc):
    """A member's answer carries the member's port only: it must show the
    listener's port."""
    listeners = {}
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
