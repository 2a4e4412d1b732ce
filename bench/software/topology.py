# SPDX-License-Identifier: Apache-2.0
"""What of a bed's links software under test has to know: where clients'
packets come from, where members are, and who has routes to VIPs."""

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

    :param interface: name of the host's own one.
    """

    host: str
    interface: str
    mac: str


def front(bed: interface.Bed, host: interface.Host,
          ) -> list[interface.Interface]:
    """Where clients' packets come in."""
    found = [one for one in host.interfaces.values()
             if _roles(bed, one) & {interface.ROUTER, interface.GENERATOR}]
    if not found:
        raise errors.BenchError(
            f'bed {bed.name}: {host.name} has no link to a router or a '
            'generator, so that no packet can come to it')
    return found


def back(bed: interface.Bed, host: interface.Host) -> list[NextHop]:
    """Where packets to members leave: servers themselves, or routers."""
    for roles in (_SERVERS, (interface.ROUTER,)):
        found = [NextHop(peer, one.name, _end(bed, peer, host, one).mac)
                 for one in host.interfaces.values() for peer in one.peers
                 if bed.hosts[peer].role in roles]
        if found:
            return found
    raise errors.BenchError(
        f'bed {bed.name}: {host.name} has no link to a member, a sink or a '
        'router, so that no packet can leave it')


def address_of(one: interface.Interface, version: int) -> str | None:
    """Its first address of a family, without the prefix's length."""
    for text in one.addresses:
        address = ipaddress.ip_interface(text).ip
        if address.version == version and not address.is_link_local:
            return str(address)
    return None


def route_vips(bed: interface.Bed, vips: Iterable[str],
               nodes: Sequence[interface.Host]) -> None:
    """Let those in front of the load balancers send VIPs to these nodes, each
    to an equal share of the flows; with none, as the bed has it by itself."""
    networks: list[str] = []
    addresses = [ipaddress.ip_network(vip) for vip in set(vips)]
    for version in (4, 6):
        networks += map(str, ipaddress.collapse_addresses(
            one for one in addresses if one.version == version))
    for host in _before(bed):
        lines = [_route(bed, host, network, nodes) for network in networks]
        # A route that is not there need not be removed.
        host.run(['ip', *([] if nodes else ['-force']), '-batch', '-'],
                 check=bool(nodes), stdin='\n'.join(lines) + '\n')


def _before(bed):
    """Hosts with a link to a load balancer that packets come from: routers,
    or else generators."""
    for role in (interface.ROUTER, interface.GENERATOR):
        found = [host for host in bed.by_role(role)
                 if any(interface.LOAD_BALANCER in _roles(bed, one)
                        for one in host.interfaces.values())]
        if found:
            return found
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
    """The interface of a host at a link that a neighbour of it has."""
    return next(one for one in bed.hosts[name].interfaces.values()
                if one.link == link.link and neighbour.name in one.peers)


def _roles(bed, one):
    return {bed.hosts[peer].role for peer in one.peers}
