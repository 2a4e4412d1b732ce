# SPDX-License-Identifier: Apache-2.0
"""The services of a scenario, with members at addresses of a bed's hosts."""

from collections.abc import Iterator
import contextlib
import ipaddress
import itertools

from bench import errors
from bench.beds import interface as beds
from bench.scenarios import model
from bench.software import interface as software

# Networks of VIPs in beds, from RFC 6598 and RFC 3849.
VIPS = {4: ipaddress.ip_network('100.64.0.0/16'),
        6: ipaddress.ip_network('2001:db8:113::/112')}


@contextlib.contextmanager
def on(bed: beds.Bed, wanted: model.Services, spares: int = 0,
       ) -> Iterator[tuple[list[software.Service], list[software.Member]]]:
    """Yield the services and spare members; hosts have their addresses then.

    Members are spread over the hosts of members, or over sinks in a bed
    without these. If there are too few addresses, hosts get more of them from
    the end of their network.
    """
    hosts = bed.by_role(beds.MEMBER) or bed.by_role(beds.SINK)
    if not hosts:
        raise errors.BenchError(
            f'bed {bed.name} has neither members nor sinks: nothing could '
            'receive')
    version = wanted.member_family or wanted.family
    with contextlib.ExitStack() as stack:
        members = [software.Member(address, wanted.port, host)
                   for host, address in _addresses(
                       bed, hosts, version, wanted.members + spares, stack)]
        serving = tuple(members[:wanted.members])
        network = VIPS[wanted.family]
        yield [software.Service(str(network[1 + number]), wanted.port,
                                wanted.protocol, serving)
               for number in range(wanted.vips)], members[wanted.members:]


def _addresses(bed, hosts, version, count, stack):
    """Return (host, address) of each member."""
    used = {ipaddress.ip_interface(text).ip
            for host in bed.hosts.values()
            for end in host.interfaces.values() for text in end.addresses}
    links = {host.name: _link(bed, host, version) for host in hosts}
    declared = [[(name, str(address.ip)) for address in addresses]
                for name, (_link, addresses) in links.items()]
    # The first of each host, then the second of each.
    places = [place for row in itertools.zip_longest(*declared)
              for place in row if place][:count]
    for host in itertools.islice(itertools.cycle(hosts),
                                 max(0, count - len(places))):
        link, addresses = links[host.name]
        network = addresses[0].network
        address = _free(network, used, bed.name)
        used.add(address)
        _add(host, link, f'{address}/{network.prefixlen}', stack)
        places.append((host.name, str(address)))
    return places


def _link(bed, host, version):
    """Return (interface, its addresses) towards load balancers."""
    senders = {beds.LOAD_BALANCER, beds.ROUTER}
    for end in host.interfaces.values():
        addresses = [
            own for own in map(ipaddress.ip_interface, end.addresses)
            if own.version == version and not own.ip.is_link_local]
        if addresses and senders & {bed.hosts[peer].role
                                    for peer in end.peers}:
            return end, addresses
    raise errors.BenchError(
        f'bed {bed.name}: {host.name} has no IPv{version} address at a link '
        'to a load balancer or router, which a member needs')


def _free(network, used, name):
    last = int(network.broadcast_address) - 1
    for number in range(last, int(network.network_address), -1):
        address = ipaddress.ip_address(number) if network.version == 4 else (
            ipaddress.IPv6Address(number))
        if address not in used:
            return address
    raise errors.BenchError(
        f'bed {name}: network {network} has no address left for another '
        'member')


def _add(host, link, address, stack):
    words = ['ip', 'address', 'add', address, 'dev', link.name]
    host.run([*words, 'nodad'] if ':' in address else words)
    stack.callback(host.run, ['ip', 'address', 'delete', address, 'dev',
                              link.name], check=False)
