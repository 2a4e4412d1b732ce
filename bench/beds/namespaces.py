# SPDX-License-Identifier: Apache-2.0
"""Beds of network namespaces, joined by veth pairs that run native XDP."""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import os

from bench import errors
from bench.beds import channel
from bench.beds import declaration
from bench.beds import interface
from bench.beds import nics
from bench.beds import routing
from bench.beds import runs
from lab.fabric import links

# A bridge has its own namespace, so that it is part of no host.
_SEGMENT = 'segment-'


class Provider:
    """Builds beds of namespaces; see interface.Provider."""

    name = declaration.NAMESPACES

    @contextlib.contextmanager
    def build(self, declared: declaration.Bed, run: str,
              ) -> Iterator[interface.Bed]:
        if os.geteuid():
            raise errors.BenchError(
                'network namespaces need root: run octavia-xdp-bench as root')
        with runs.hold(run) as held:
            hosts = make(held.machine, declared, run)
            yield interface.Bed(declared, hosts, {
                'machine': next(iter(hosts.values()))})


def make(machine: channel.Host, declared: declaration.Bed, run: str,
         ) -> dict[str, channel.Host]:
    """Make the hosts on a machine, with their links.

    :raises errors.BenchError: the machine's kernel refuses something.
    """
    hosts = {name: _create(machine, run, name, host.role)
             for name, host in declared.hosts.items()}
    # First the settings that new interfaces start with.
    for name, host in hosts.items():
        _sysctl(host, declared.hosts[name],
                lambda setting: '.default.' in setting)
    for number, link in enumerate(declared.links):
        if link.segment:
            _make_segment(hosts, run, link, _create(
                machine, run, f'{_SEGMENT}{number}', ''))
        else:
            _make_pair(hosts, run, link)
    for host in hosts.values():
        _configure(declared, host)
    macs = {name: interface.macs(host) for name, host in hosts.items()}
    for host in hosts.values():
        host.interfaces = interface.interfaces(declared, host.name, macs)
        _set_nics(declared, host)
    for host in hosts.values():
        _settle(declared, host, macs)
    return hosts


def _create(machine, run, name, role):
    namespace = runs.namespace(run, name)
    host = machine.within(namespace, name, role)
    machine.run(['mkdir', host.folder])
    machine.undo(['ip', 'netns', 'delete', namespace])
    machine.run(['ip', 'netns', 'add', namespace])
    host.run(['ip', 'link', 'set', 'lo', 'up'])
    return host


def _sysctl(host, declared, wanted):
    for name, value in declared.sysctl.items():
        name = name.replace('/', '.')
        if wanted(name):
            host.run(['sysctl', '-qw', f'{name}={value}'])


def _make_pair(hosts, run, link):
    first, second = link.ends
    hosts[first.host].run([
        'ip', 'link', 'add', *_settings(link, first), 'type', 'veth', 'peer',
        *_settings(link, second), 'netns', runs.namespace(run, second.host)])


def _settings(link, end):
    queues = _queues(link, end)
    limits = [] if queues is None else ['numtxqueues', queues,
                                        'numrxqueues', queues]
    return ['name', end.interface, 'mtu', end.nic.mtu, *limits]


def _queues(link, end):
    """Return the declared number of queues, or else that of the other end:
    XDP needs at least as many as the other end has for sending."""
    if end.nic.queues is None and not link.segment:
        return max(other.nic.queues or 0 for other in link.ends) or None
    return end.nic.queues


def _make_segment(hosts, run, link, bridge):
    mtu = max(end.nic.mtu for end in link.ends)
    lines = [f'link add name br mtu {mtu} type bridge stp_state 0 '
             'mcast_snooping 0', 'link set dev br up']
    for port, end in enumerate(link.ends):
        hosts[end.host].run([
            'ip', 'link', 'add', *_settings(link, end), 'type', 'veth',
            'peer', 'name', f'port{port}', 'mtu', mtu, 'netns',
            runs.namespace(run, bridge.name)])
        lines += [f'link set dev port{port} master br',
                  f'link set dev port{port} up']
    _ip(bridge, lines)
    for port in range(len(link.ends)):
        # Packets must carry checksums: see lab/fabric/links.py.
        bridge.run(['ethtool', '-K', f'port{port}', 'tx', 'off', 'tso', 'off',
                    'gso', 'off'])
        _receive_at_once(bridge, f'port{port}')


def _receive_at_once(host, name):
    """See links.receive_at_once()."""
    host.run([links.DECAPSULATE, 'setup', '--any-source', '--mss', 'off',
              name])


def _configure(declared, host):
    """Add addresses and set interfaces up."""
    own = declared.hosts[host.name]
    lines = [f'address add dev lo {address}{_nodad(address)}'
             for address in own.loopback]
    for name, (_, end) in declared.ends(host.name).items():
        lines += [f'address add dev {name} {address}{_nodad(address)}'
                  for address in end.addresses]
        lines.append(f'link set dev {name} up')
    _ip(host, lines)
    _sysctl(host, own, lambda name: True)


def _set_nics(declared, host):
    for name, (link, end) in declared.ends(host.name).items():
        queues = _queues(link, end)
        if queues is not None:
            nics.set_queues(host, name, queues)
        nics.set_offloads(host, name, dict(end.nic.offloads))


def _settle(declared, host, macs):
    """Configure what needs both ends of links: neighbours, routes, XDP."""
    lines = []
    for name, (link, end) in declared.ends(host.name).items():
        if end.nic.receive_xdp:
            _receive_at_once(host, name)
        for other in link.ends if link.permanent_neighbours else ():
            if other.host != host.name:
                mac = macs[other.host][other.interface]
                lines += [f'neighbour replace {_bare(address)} lladdr {mac} '
                          f'dev {name} nud permanent'
                          for address in other.addresses]
    for route in declared.hosts[host.name].routes:
        lines.append(routing.command(route))
    _ip(host, lines)


def _ip(host: channel.Host, lines: Sequence[str]) -> None:
    """Run commands of ip in a host; an error names the one that failed."""
    if not lines:
        return
    done = host.run(['ip', '-batch', '-'], check=False,
                    stdin='\n'.join(lines) + '\n')
    if done.returncode:
        message = done.stderr.strip()
        number = message.rpartition('Command failed -:')[2]
        line = lines[int(number) - 1] if number.isdigit() else 'ip'
        raise errors.BenchError(
            f'host {host.name}: "{line}" failed: {message}')


def _nodad(address):
    return ' nodad' if ':' in address else ''


def _bare(address):
    return address.partition('/')[0]
