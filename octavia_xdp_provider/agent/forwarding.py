# SPDX-License-Identifier: Apache-2.0
"""From the wanted state of a load balancer to services and checks.

Pure functions; what a node must refuse by itself, because a mistake would
reach the fabric, is checked here a second time.
"""

import dataclasses
import ipaddress
import typing

from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.agent import service_settings
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


class Service(typing.NamedTuple):
    """What one listener needs of the datapath."""

    settings: datapath.Settings
    members: tuple

    @property
    def families(self):
        """IP versions of the outer packets to its members."""
        return frozenset(ipaddress.ip_address(member.address).version
                         for member in self.members)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one load balancer needs on a node.

    ``services``: datapath.Key → Service.
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


def _address(name, text):
    """The address in its one spelling."""
    address = ipaddress.ip_address(text)
    if address.version == 6 and address.ipv4_mapped:
        # It would be taken for the IPv4 address that it maps.
        raise errors.Refused(name, f'{text} is an IPv4-mapped address',
                             'use the IPv4 address')
    return address


def _member_address(name, text, limits):
    address = _address(name, text)
    if str(address) in limits.own_addresses:
        raise errors.Refused(name, f'{text} is an address of an LB node',
                             'use the address of a server')
    for network in limits.denied_networks:
        if address.version == network.version and address in network:
            raise errors.Refused(name, f'{text} lies in {network}, where no '
                                 'member may be', 'use another address')
    return str(address)


def plan(document, limits, path_mtu=None):
    """What a load balancer needs on this node.

    :param path_mtu: gives the greatest outer packet, in bytes, that reaches
        an address, or 0 where the uplink alone says it.
    :raises Refused: the node must not do it.
    :raises ValueError: a field cannot be read.
    """
    address = _address('vip_address', document['vip_address'])
    vip = str(address)
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
                settings = service_settings.of(document, listener, pool)
                keys = _plan_service(result, key, settings, pool, limits,
                                     path_mtu or (lambda _address: 0))
                result.listeners[listener_id] = key
                if keys:
                    result.pools[listener['default_pool_id']] = keys
    return result


def _plan_service(result, key, settings, pool, limits, path_mtu):
    """Add a service to the plan. Returns the keys of its members' checks."""
    monitor = pool['healthmonitor']
    keys = set()
    members = []
    for member_id, member in pool['members'].items():
        address = _member_address('address', member['address'], limits)
        check_id = 0
        if monitor and monitor['admin_state_up'] and member['admin_state_up']:
            if member['monitor_address']:
                _member_address('monitor_address', member['monitor_address'],
                                limits)
            wanted = check(monitor, member)
            result.checks.append(wanted)
            keys.add(wanted.key)
            result.monitored[member_id] = (key, address)
            check_id = int(wanted.key, 16)
        members.append(datapath.Member(
            address, member['weight'], check_id, member['admin_state_up'],
            member.get('backup', False),
            path_mtu(service_settings.outer_address(settings, address))))
    result.services[key] = Service(settings, tuple(sorted(members)))
    return keys
