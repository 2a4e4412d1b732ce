# SPDX-License-Identifier: Apache-2.0
"""IPVS, the kernel's layer 4 load balancer: packets go to members in IPIP
tunnels, and answers bypass it (DSR).

This is what the product does by default, so the two are comparable. Members
are chosen by Maglev hashing (scheduler "mh", with ports) as in the product;
IPVS also keeps an entry for each connection. Members decapsulate and have the
VIP.
"""

import dataclasses

from bench import endpoint
from bench import errors
from bench.beds import interface as beds
from bench.software import interface
from bench.software import peer

_FLAGS = {'tcp': '-t', 'udp': '-u'}
# A service's table has 4093 pointers, the prime for Debian's
# CONFIG_IP_VS_MH_TAB_INDEX of 12 (ip_vs_mh.c).
_TABLE_BYTES = 4093 * 8


@dataclasses.dataclass(frozen=True)
class Configuration(peer.Common):
    """:param scheduler: a scheduler of ipvsadm(8).
    :param scheduler_flags: flags of the scheduler; empty: none.
    """

    scheduler: str = 'mh'
    scheduler_flags: str = 'mh-port'


class Deployment(peer.Deployment):

    def check(self, services):
        peer.refuse_protocols('ipvs', services, tuple(_FLAGS))
        for service in services:
            for member in service.members:
                if member.port != service.port:
                    raise errors.BenchError(
                        f'software ipvs: {service.vip}: member '
                        f'{member.address} has port {member.port}, not '
                        f'{service.port}: a tunnel changes no port')

    def prepare(self, host, stack):
        stack.enter_context(peer.kernel_settings(host, {
            'net.ipv4.ip_forward': 1, 'net.ipv6.conf.all.forwarding': 1,
            # See bench/software/kernel.py.
            'net.ipv4.ip_early_demux': 0}))

    def start(self, host):
        lines = []
        for service in self._services.values():
            lines.append(add_service(service, self._wanted))
            lines += (_member('-a', service, member)
                      for member in service.members)
        _restore(host, lines)

    def apply(self, host, old):
        service = self._services[peer.key(old)]
        _restore(host, changes(old, service))

    def stop(self, host):
        _restore(host, (f'-D {_name(service)}'
                        for service in self._services.values()))

    def tables_bytes(self):
        """Return the size of Maglev's tables."""
        if self._wanted.scheduler != 'mh':
            return 0
        return len(self._alive) * len(self._services) * _TABLE_BYTES


def add_service(service: interface.Service, wanted: Configuration) -> str:
    """Return a line for ipvsadm --restore."""
    flags = f' -b {wanted.scheduler_flags}' if wanted.scheduler_flags else ''
    return f'-A {_name(service)} -s {wanted.scheduler}{flags}'


def changes(old: interface.Service, new: interface.Service) -> list[str]:
    """Return lines for ipvsadm --restore; remaining members keep entries."""
    before = {member.address: member for member in old.members}
    after = {member.address: member for member in new.members}
    lines = [_member('-a' if address not in before else '-e', new, member)
             for address, member in after.items()
             if before.get(address) != member]
    return lines + [
        f'-d {_name(new)} -r {endpoint.text(address, member.port)}'
        for address, member in before.items() if address not in after]


def _member(action, service, member):
    server = endpoint.text(member.address, member.port)
    return f'{action} {_name(service)} -r {server} -i -w {member.weight}'


def _name(service):
    address = endpoint.text(service.vip, service.port)
    return f'{_FLAGS[service.protocol]} {address}'


def _restore(host, lines):
    host.run(['ipvsadm', '--restore'],
             stdin=''.join(f'{line}\n' for line in lines))


class Ipvs(peer.Software):

    name = 'ipvs'
    configuration = Configuration
    deployment = Deployment

    def missing(self, bed: beds.Bed) -> str | None:
        lacking = peer.missing_programs(bed, {'ipvsadm': 'ipvsadm'})
        if lacking:
            return lacking
        for host in bed.by_role(beds.LOAD_BALANCER):
            for module in ('ip_vs', 'ip_vs_mh'):
                # modprobe succeeds for built-in modules too.
                if host.run(['modprobe', module], check=False).returncode:
                    return (f'the kernel of {host.name} has no {module}: use '
                            "a bed of guests with Debian's kernels, or "
                            'machines that have it')
        return None
