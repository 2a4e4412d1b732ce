# SPDX-License-Identifier: Apache-2.0
"""A bed's links as software under test needs them: where clients' packets
arrive, where members are, and which hosts route VIPs."""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import ipaddress

from bench import errors
from bench.beds import interface

_SERVERS = (interface.MEMBER, interface.SINK)


@dataclasses.dataclass(frozen=True)
class NextHop:
    """A neighbour of a host.

    :param interface: name of the host's interface to it.
    """

    host: str
    interface: str
    mac: str


def front(bed: interface.Bed, host: interface.Host,
          ) -> list[interface.Interface]:
    """Return the interfaces at which clients' packets arrive."""
    ends = [end for end in host.interfaces.values()
            if _roles(bed, end) & {interface.ROUTER, interface.GENERATOR}]
    if not ends:
        raise errors.BenchError(
            f'bed {bed.name}: {host.name} has no link to a router or a '
            'generator, so that no packet can come to it')
    return ends


def back(bed: interface.Bed, host: interface.Host) -> list[NextHop]:
    """Return the next hops towards members: servers, or else routers."""
    for roles in (_SERVERS, (interface.ROUTER,)):
        hops = [NextHop(peer, end.name, _end(bed, peer, host, end).mac)
                for end in host.interfaces.values() for peer in end.peers
                if bed.hosts[peer].role in roles]
        if hops:
            return hops
    raise errors.BenchError(
        f'bed {bed.name}: {host.name} has no link to a member, a sink or a '
        'router, so that no packet can leave it')


def address_of(end: interface.Interface, version: int) -> str | None:
    """Return the first address of an IP version, without prefix length."""
    for text in end.addresses:
        address = ipaddress.ip_interface(text).ip
        if address.version == version and not address.is_link_local:
            return str(address)
    return None


def route_vips(bed: interface.Bed, vips: Iterable[str],
               nodes: Sequence[interface.Host]) -> None:
    """Make hosts before the load balancers route VIPs to these nodes, with
    equal shares of flows; without nodes, remove these routes."""
    networks: list[str] = []
    addresses = [ipaddress.ip_network(vip) for vip in set(vips)]
    for version in (4, 6):
        networks += map(str, ipaddress.collapse_addresses(
            address for address in addresses if address.version == version))
    for host in _before(bed):
        lines = [_route(bed, host, network, nodes) for network in networks]
        # A missing route need not be removed.
        host.run(['ip', *([] if nodes else ['-force']), '-batch', '-'],
                 check=bool(nodes), stdin='\n'.join(lines) + '\n')


def _before(bed):
    """Return hosts that send packets to load balancers: routers with a link to
    one, or else generators."""
    for role in (interface.ROUTER, interface.GENERATOR):
        hosts = [host for host in bed.by_role(role)
                 if any(interface.LOAD_BALANCER in _roles(bed, end)
                        for end in host.interfaces.values())]
        if hosts:
            return hosts
    raise errors.BenchError(
        f'bed {bed.name}: no router and no generator has a link to a load '
        'balancer')


def _route(bed, host, network, nodes):
    version = ipaddress.ip_network(network).version
    hops = [(address, own.name) for node in nodes
            for own in host.interfaces.values() if node.name in own.peers
            if (address := address_of(_end(bed, node.name, host, own),
                                      version))]
    if nodes and not hops:
        raise errors.BenchError(
            f'bed {bed.name}: {host.name} and its load balancers share no '
            f'link with IPv{version} addresses for VIPs {network}')
    if not hops:
        return f'route delete {network}'
    words = ['route', 'replace', network]
    for address, name in hops:
        words += ['nexthop', 'via', address, 'dev', name]
    return ' '.join(words)


def _end(bed, name, neighbour, link):
    """Return the interface of a host at the link to a neighbour."""
    return next(end for end in bed.hosts[name].interfaces.values()
                if end.link == link.link and neighbour.name in end.peers)


def _roles(bed, end):
    return {bed.hosts[peer].role for peer in end.peers}
