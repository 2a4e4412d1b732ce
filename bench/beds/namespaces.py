# SPDX-License-Identifier: Apache-2.0
"""Beds of network namespaces, joined by veth pairs that run native XDP."""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import json
import os
import pathlib
from typing import Any

from bench import errors
from bench.beds import declaration
from bench.beds import interface
from bench.beds import local
from bench.beds import nics
from bench.beds import routing
from bench.beds import runs
from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import links

# A bridge has its own namespace, so that it is part of no host.
_SEGMENT = 'segment-'


class Bed:
    """Hosts that are up; see interface.Bed."""

    counts_instructions = False

    def __init__(self, declared: declaration.Bed,
                 hosts: dict[str, local.Host]):
        self.name, self.hosts = declared.name, hosts
        self.machines = {'machine': next(iter(hosts.values()))}
        self._declared = declared

    def by_role(self, role: str) -> list[local.Host]:
        return [host for host in self.hosts.values() if host.role == role]

    def fingerprint(self) -> dict[str, Any]:
        return {
            'provider': declaration.NAMESPACES,
            'declaration': self._declared.content,
            'interfaces': {
                host.name: {name: nics.describe(host, end.name)
                            for name, end in host.interfaces.items()
                            if end.peers}
                for host in self.hosts.values()},
        }


class Provider:
    """Builds beds of namespaces; see interface.Provider."""

    name = declaration.NAMESPACES

    @contextlib.contextmanager
    def build(self, declared: declaration.Bed, run: str) -> Iterator[Bed]:
        if os.geteuid():
            raise errors.BenchError(
                'network namespaces need root: run octavia-xdp-bench as root')
        with _errors(declared), contextlib.ExitStack() as stack:
            lab = stack.enter_context(runs.hold(run))
            bed = _make(lab, declared)
            with _passed_through():
                yield bed


class _UserError(Exception):
    """Carries a LabError of the bed's user past _errors(), unchanged."""


@contextlib.contextmanager
def _passed_through():
    try:
        yield
    except paths.LabError as error:
        raise _UserError from error


@contextlib.contextmanager
def _errors(declared):
    try:
        yield
    except _UserError as error:
        raise error.__cause__ from None
    except paths.LabError as error:
        raise errors.BenchError(
            f'test bed {declared.name} cannot be made: {error}') from None


def _make(lab, declared):
    for host in declared.hosts:
        namespaces.create(lab, host)
    # First the settings that new interfaces start with.
    for host in declared.hosts.values():
        _sysctl(lab, host, lambda name: '.default.' in name)
    for number, link in enumerate(declared.links):
        _make_segment(lab, link, number) if link.segment else _make_pair(
            lab, link)
    for host in declared.hosts.values():
        _configure(lab, declared, host)
    macs = {host: _macs(lab, host) for host in declared.hosts}
    hosts = {host.name: _host(lab, declared, host, macs)
             for host in declared.hosts.values()}
    for host in hosts.values():
        _set_nics(declared, host)
    for host in hosts.values():
        _settle(lab, declared, host, macs)
    return Bed(declared, hosts)


def _sysctl(lab, host, wanted):
    for name, value in host.sysctl.items():
        name = name.replace('/', '.')
        if wanted(name):
            processes.run(lab, host.name, ['sysctl', '-qw',
                                           f'{name}={value}'])


def _make_pair(lab, link):
    first, second = link.ends
    processes.run(lab, first.host, [
        'ip', 'link', 'add', *_settings(link, first), 'type', 'veth', 'peer',
        *_settings(link, second), 'netns', lab.namespace(second.host)])


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


def _make_segment(lab, link, number):
    bridge = f'{_SEGMENT}{number}'
    namespaces.create(lab, bridge)
    mtu = max(end.nic.mtu for end in link.ends)
    lines = [f'link add name br mtu {mtu} type bridge stp_state 0 '
             'mcast_snooping 0', 'link set dev br up']
    for port, end in enumerate(link.ends):
        processes.run(lab, end.host, [
            'ip', 'link', 'add', *_settings(link, end), 'type', 'veth',
            'peer', 'name', f'port{port}', 'mtu', mtu, 'netns',
            lab.namespace(bridge)])
        lines += [f'link set dev port{port} master br',
                  f'link set dev port{port} up']
    ip(lab, bridge, lines)
    for port in range(len(link.ends)):
        # Packets must carry checksums: see lab/fabric/links.py.
        processes.run(lab, bridge, ['ethtool', '-K', f'port{port}', 'tx',
                                    'off', 'tso', 'off', 'gso', 'off'])
        links.receive_at_once(lab, bridge, f'port{port}')


def _configure(lab, declared, host):
    """Add addresses and set interfaces up."""
    lines = [f'address add dev lo {address}{_nodad(address)}'
             for address in host.loopback]
    for name, (_, end) in declared.ends(host.name).items():
        lines += [f'address add dev {name} {address}{_nodad(address)}'
                  for address in end.addresses]
        lines.append(f'link set dev {name} up')
    ip(lab, host.name, lines)
    _sysctl(lab, host, lambda name: True)


def _set_nics(declared, host):
    for name, (link, end) in declared.ends(host.name).items():
        queues = _queues(link, end)
        if queues is not None:
            nics.set_queues(host, name, queues)
        nics.set_offloads(host, name, dict(end.nic.offloads))


def _settle(lab, declared, host, macs):
    """Configure what needs both ends of links: neighbours, routes, XDP."""
    lines = []
    for name, (link, end) in declared.ends(host.name).items():
        if end.nic.receive_xdp:
            links.receive_at_once(lab, host.name, name)
        for other in link.ends if link.permanent_neighbours else ():
            if other.host != host.name:
                mac = macs[other.host][other.interface]
                lines += [f'neighbour replace {_bare(address)} lladdr {mac} '
                          f'dev {name} nud permanent'
                          for address in other.addresses]
    for route in declared.hosts[host.name].routes:
        lines.append(routing.command(route))
    ip(lab, host.name, lines)


def ip(lab: paths.Lab, host: str, lines: Sequence[str]) -> None:
    """Run commands of ip in a host; an error names the one that failed."""
    if not lines:
        return
    done = processes.run(lab, host, ['ip', '-batch', '-'], check=False,
                         input='\n'.join(lines) + '\n')
    if done.returncode:
        message = done.stderr.strip()
        number = message.rpartition('Command failed -:')[2]
        line = lines[int(number) - 1] if number.isdigit() else 'ip'
        raise errors.BenchError(f'host {host}: "{line}" failed: {message}')


def _host(lab, declared, host, macs):
    folder = lab.run_directory / host.name
    folder.mkdir()
    interfaces = {}
    for name, (link, end) in declared.ends(host.name).items():
        interfaces[name] = interface.Interface(
            name, link.name, macs[host.name][name], end.nic.mtu,
            end.addresses,
            tuple(other.host for other in link.ends if other is not end))
    if host.loopback:
        interfaces['lo'] = interface.Interface(
            'lo', 'lo', macs[host.name]['lo'], 65536, host.loopback, ())
    return local.Host(host.name, host.role,
                      pathlib.Path(namespaces.NETNS) / lab.namespace(
                          host.name), folder, interfaces)


def _macs(lab, host):
    done = processes.run(lab, host, ['ip', '-json', 'link', 'show'])
    return {link['ifname']: link['address']
            for link in json.loads(done.stdout)}


def _nodad(address):
    return ' nodad' if ':' in address else ''


def _bare(address):
    return address.partition('/')[0]
