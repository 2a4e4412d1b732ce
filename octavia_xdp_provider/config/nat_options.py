# SPDX-License-Identifier: Apache-2.0
"""Options of NAT on an LB node."""

import collections
import ipaddress
import itertools

from oslo_config import cfg

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor

# OXP_NAT_ADDRESSES_MAX of the datapath, per IP version.
ADDRESSES_MAX = 256
# Ports of an address that flows may use: OXP_NAT_PORT_MIN to 65535.
PORTS = 65536 - 1024


def _timeout(name: str, default: int, text: str) -> cfg.IntOpt:
    """Return an option within the datapath's OXP_NAT_TIMEOUT_MIN and _MAX."""
    return cfg.IntOpt(name, default=default, min=flavor.IDLE_TIMEOUT_MIN,
                      max=flavor.IDLE_TIMEOUT_MAX,
                      help=f'Seconds without a packet after which {text}')


_UNLESS = ('unless the flavor sets idle_timeout, or the listener a longer '
           'timeout_client_data or timeout_member_data.')

nat_opts = [
    cfg.ListOpt('pools',
                default=[],
                help='Networks (CIDR) of addresses that only this LB node '
                     'uses, as source addresses of packets to members of load '
                     'balancers with forwarding nat. The node announces them '
                     'and uses every address; none may belong to a VIP or a '
                     f'host. At most {ADDRESSES_MAX} addresses of each IP '
                     'version; each takes 8 MiB of memory. Members are '
                     'reached from a pool of their own IP version. Default: '
                     'this node does no NAT.'),
    cfg.IntOpt('tenant_share',
               default=50, min=1, max=100,
               help='Percentage of the ports of the node\'s pools that the '
                    'flows of one project may use at the same time. If there '
                    'are pools of both IP versions, the version with fewer '
                    'ports counts. Further new flows are refused and counted. '
                    'Independently of this value, half of the ports are '
                    'reserved in equal parts, one for each project on the '
                    'node and one spare.'),
    _timeout('tcp_opening_timeout', 240,
             'a TCP connection without a complete handshake ends.'),
    _timeout('tcp_established_timeout', 7440,
             f'an established TCP connection ends, {_UNLESS}'),
    _timeout('tcp_closing_timeout', 240,
             'a TCP connection ends if one side has sent a FIN; the timeout '
             'of an established connection applies if it is shorter.'),
    _timeout('tcp_time_wait_timeout', 60,
             'the port of a TCP connection that was closed by both sides or '
             'reset can be used for another one to the same member.'),
    _timeout('udp_opening_timeout', 120,
             'a UDP flow ends, until the client has sent again after the '
             'member\'s first packet.'),
    _timeout('udp_established_timeout', 300,
             f'any other UDP flow ends, {_UNLESS}'),
]


def pools(conf: cfg.ConfigOpts) -> tuple[address_policy.Network, ...]:
    """Return [nat] pools, sorted.

    :raises ConfigurationError: a pool is invalid.
    """
    networks = []
    for text in conf.nat.pools:
        problem = fields.network_problem(text)
        if problem:
            _refuse(*problem)
        network = ipaddress.ip_network(text)
        if (network.is_multicast or network.is_loopback
                or network.is_link_local or network.is_unspecified
                or network.prefixlen == 0):
            _refuse(f'{network} has no addresses that can be routed to a '
                    'node', 'use a network of its own')
        networks.append(network)
    return tuple(sorted(networks, key=lambda network: (
        network.version, int(network.network_address), network.prefixlen)))


def share(networks: tuple[address_policy.Network, ...], percent: int) -> int:
    """Return the number of flows that a project may have."""
    addresses = _addresses(networks)
    return min(addresses.values(), default=0) * PORTS * percent // 100


def _addresses(networks: tuple[address_policy.Network, ...]
               ) -> collections.Counter[int]:
    """Return the number of addresses by IP version."""
    result: collections.Counter[int] = collections.Counter()
    for network in networks:
        result[network.version] += network.num_addresses
    return result


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse pools that conflict with each other or with other options.

    :raises ConfigurationError: names the option.
    """
    networks = pools(conf)
    for network, other in itertools.combinations(networks, 2):
        if network.version == other.version and network.overlaps(other):
            _refuse(f'{network} and {other} overlap', 'name each address once')
    for version, number in _addresses(networks).items():
        if number > ADDRESSES_MAX:
            _refuse(f'they have {number} IPv{version} addresses, more than '
                    f'{ADDRESSES_MAX}', 'use smaller networks')
    vips = option_values.networks(conf, 'vip', 'allowed_networks')
    for network in networks:
        for vip in vips:
            if network.version == vip.version and network.overlaps(vip):
                _refuse(f'{network} overlaps {vip} of [vip] allowed_networks, '
                        'where any address may be a VIP',
                        'use a network that has none')


def _refuse(why: str, instead: str) -> None:
    raise option_values.ConfigurationError(f'[nat] pools: {why}: {instead}')
