# SPDX-License-Identifier: Apache-2.0
"""From the wanted state of a load balancer to services and checks.

Pure functions; what a node must refuse by itself, because a mistake would
reach the fabric, is checked here a second time.
"""

import dataclasses
import ipaddress

from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.common import checks_file
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import expected_codes
from octavia_xdp_provider.common import spec


@dataclasses.dataclass(frozen=True)
class Limits:
    """What this node lets no wanted state do."""

    vip_networks: tuple
    denied_networks: tuple
    own_addresses: frozenset


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one load balancer needs on a node.

    ``services``: datapath.Key → tuple of datapath.Member.
    ``listeners``: listener id → datapath.Key.
    ``checks``: list of checks_file.Check.
    ``pools``: pool id → keys of the checks of its members.
    ``monitored``: member id → (datapath.Key, address), of the members whose
    health is checked.
    """

    vip: str
    services: dict
    listeners: dict
    checks: list
    pools: dict
    monitored: dict


def check(monitor, member):
    """The check of a member that its pool's health monitor asks for."""
    kind = monitor['type']
    http = tls = None
    if kind in ('HTTP', 'HTTPS'):
        http = checks_file.HttpOptions(
            method=monitor['http_method'], path=monitor['url_path'],
            version=f'{float(monitor["http_version"]):.1f}',
            host=monitor['domain_name'],
            expected_codes=expected_codes.parse(
                monitor['expected_codes']))
    if kind in ('HTTPS', 'TLS-HELLO'):
        tls = checks_file.TlsOptions.for_host(monitor['domain_name'])
    return checks_file.Check(
        type=kind.lower(),
        address=member['monitor_address'] or member['address'],
        port=member['monitor_port'] or member['protocol_port'],
        delay=monitor['delay'], timeout=monitor['timeout'],
        rise=monitor['max_retries'], fall=monitor['max_retries_down'],
        http=http, tls=tls)


def _refuse_address(name, text, limits):
    address = ipaddress.ip_address(text)
    if text in limits.own_addresses:
        raise errors.Refused(name, f'{text} is an address of an LB node',
                             'use the address of a server')
    for network in limits.denied_networks:
        if address.version == network.version and address in network:
            raise errors.Refused(name, f'{text} lies in {network}, where no '
                                 'member may be', 'use another address')


def plan(document, limits):
    """What a load balancer needs on this node.

    :raises Refused: the node must not do it.
    :raises ValueError: a field cannot be read.
    """
    vip = document['vip_address']
    address = ipaddress.ip_address(vip)
    if not any(address in network for network in limits.vip_networks):
        raise errors.Refused(
            'vip_address', f'{vip} is outside [vip] allowed_networks of '
            'this node', 'configure all nodes and the API alike')
    result = Plan(vip, {}, {}, [], {}, {})
    if not document['admin_state_up']:
        return result
    for listener_id, listener in document['listeners'].items():
        if not listener['admin_state_up']:
            continue
        key = datapath.Key(vip, listener['protocol'],
                           listener['protocol_port'])
        for pool in spec.pools_of(document, listener):
            if pool['admin_state_up']:
                keys = _plan_service(result, key, pool, limits)
                result.listeners[listener_id] = key
                if keys:
                    result.pools[listener['default_pool_id']] = keys
    return result


def _plan_service(result, key, pool, limits):
    """Add a service to the plan. Returns the keys of its members' checks."""
    monitor = pool['healthmonitor']
    keys = set()
    members = []
    for member_id, member in pool['members'].items():
        _refuse_address('address', member['address'], limits)
        check_id = 0
        if monitor and monitor['admin_state_up'] and member['admin_state_up']:
            if member['monitor_address']:
                _refuse_address('monitor_address', member['monitor_address'],
                                limits)
            wanted = check(monitor, member)
            result.checks.append(wanted)
            keys.add(wanted.key)
            result.monitored[member_id] = (key, member['address'])
            check_id = int(wanted.key, 16)
        members.append(datapath.Member(member['address'], member['weight'],
                                       check_id, member['admin_state_up']))
    result.services[key] = tuple(sorted(members))
    return keys
