# SPDX-License-Identifier: Apache-2.0
"""The kernel's own IP forwarding: not a load balancer, but the lower bound of
costs for those whose packets the kernel forwards.

Load balancers route VIPs like any router. If members are behind the router
that sent the packets, load balancers return them to it, like packets in a
tunnel. The router has a rule that routes packets from load balancers to
members. Members are chosen by a hash of the 5-tuple, at the host of which they
are next hops. Members have the VIP; ports and packets are not changed.
"""

import dataclasses
import ipaddress

from bench import errors
from bench.beds import interface as beds
from bench.software import peer
from bench.software import topology

# Table and priority of the router's rule, which precedes that of the main
# table (32766).
TABLE = 7431
PRIORITY = 7431


@dataclasses.dataclass(frozen=True)
class Configuration(peer.Common):
    """No further settings."""


class Deployment(peer.Deployment):

    local_vips = False

    def check(self, services):
        by_vip: dict[str, set] = {}
        for service in services:
            by_vip.setdefault(service.vip, set()).add(
                tuple((member.address, member.weight)
                      for member in service.members))
            for member in service.members:
                if member.port != service.port:
                    raise errors.BenchError(
                        f'software kernel: {service.vip}: member '
                        f'{member.address} has port {member.port}, not '
                        f'{service.port}: forwarding changes no port')
        for vip, member_sets in by_vip.items():
            if len(member_sets) > 1:
                raise errors.BenchError(
                    f'software kernel: services of {vip} have different '
                    'members: a route knows no ports')

    def prepare(self, host, stack):
        stack.enter_context(peer.kernel_settings(host, {
            'net.ipv4.ip_forward': 1, 'net.ipv6.conf.all.forwarding': 1,
            # Early demultiplexing may find sockets in TIME_WAIT of a proxy
            # that ran before, whose packets Linux would not forward. Routers
            # do not need it.
            'net.ipv4.ip_early_demux': 0,
            # Packets leave where they came in; that calls for no redirects.
            'net.ipv4.conf.all.send_redirects': 0,
            **{f'net/ipv4/conf/{end.name}/send_redirects': 0
               for end in host.interfaces.values()},
            'net.ipv4.fib_multipath_hash_policy': 1,
            'net.ipv6.fib_multipath_hash_policy': 1}))
        for router, device in self._routers(host):
            rule = f'iif {device} lookup {TABLE} priority {PRIORITY}'
            for version in (4, 6):
                peer.run_batch(router, [f'rule add {rule}'], version=version)
                stack.callback(peer.run_batch, router, [f'rule delete {rule}'],
                               version=version)
                stack.callback(peer.run_batch, router,
                               [f'route flush table {TABLE}'], force=True,
                               version=version)

    def start(self, host):
        routers = self._routers(host)
        for service in self._services.values():
            if routers:
                back = [f'nexthop via {hop} dev {device}'
                        for hop, device in self._gateways(
                            host, service.vip)]
                _route(host, service.vip, '', back)
                for router, _device in routers:
                    self._to_members(router, service, f'table {TABLE}')
            else:
                self._to_members(host, service, '')

    def apply(self, host, old):
        self.start(host)

    def stop(self, host):
        """Do nothing: the blackhole route suffices."""

    def _to_members(self, host, service, table):
        """Route to members, which must be neighbours (else BenchError)."""
        hops = []
        for member in service.members:
            device = _device(self._bed, host, member)
            if member.weight:
                hops.append(f'nexthop via {member.address} dev {device} '
                            f'weight {member.weight}')
        _route(host, service.vip, table, hops)

    def _routers(self, host):
        """Return (router, its device to the host) of routers that send to
        members; none if the host does so itself."""
        if any(self._bed.hosts[name].role in (beds.MEMBER, beds.SINK)
               for end in host.interfaces.values() for name in end.peers):
            return []
        return [(router, own.name)
                for router, own, _end in self._links(host)]

    def _gateways(self, host, vip):
        version = ipaddress.ip_address(vip).version
        return [(address, end.name) for _router, own, end in self._links(host)
                if (address := topology.address_of(own, version))]

    def _links(self, host):
        """Yield (router, its interface, the host's) of links to routers."""
        for end in host.interfaces.values():
            for name in end.peers:
                router = self._bed.hosts[name]
                if router.role != beds.ROUTER:
                    continue
                for own in router.interfaces.values():
                    if host.name in own.peers and (
                            _networks(own) & _networks(end)):
                        yield router, own, end


def _networks(end):
    return {ipaddress.ip_interface(address).network
            for address in end.addresses}


def _device(bed, host, member):
    for end in host.interfaces.values():
        if member.host in end.peers and any(
                ipaddress.ip_address(member.address) in
                ipaddress.ip_interface(address).network
                for address in end.addresses):
            return end.name
    raise errors.BenchError(
        f'software kernel: {host.name} has no link on which member '
        f'{member.address} of {member.host} is: it cannot be its next hop')


def _route(host, vip, table, hops):
    peer.run_batch(host, [' '.join(
        ['route replace', *([] if hops else ['unreachable']),
         peer.network(vip), table, *hops])])


class Kernel(peer.Software):

    name = 'kernel'
    configuration = Configuration
    deployment = Deployment

    def missing(self, bed: beds.Bed) -> str | None:
        return peer.missing_programs(bed, {'ip': 'iproute2',
                                           'sysctl': 'procps'})
