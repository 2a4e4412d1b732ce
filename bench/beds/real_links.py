# SPDX-License-Identifier: Apache-2.0
"""Interfaces, addresses and routes of real machines, for as long as a bed is.

What is changed is changed back by the machine's agent. What is there already
stays.
"""

import ipaddress
import json
from typing import Any

from bench import errors
from bench.beds import channel
from bench.beds import declaration
from bench.beds import interface
from bench.beds import nics
from bench.beds import routing


def prepare(declared: declaration.Bed, host: channel.Host) -> None:
    """Sysctls, settings of interfaces, addresses."""
    found = _shown(host)
    own = declared.hosts[host.name]
    for name, value in own.sysctl.items():
        old = host.run(['sysctl', '-n', name]).stdout.strip()
        host.undo(['sysctl', '-qw', f'{name}={old}'])
        host.run(['sysctl', '-qw', f'{name}={value}'])
    for key, (_, end) in declared.ends(host.name).items():
        name = own.access.interfaces[key]
        if name not in found:
            raise errors.BenchError(
                f'host {host.name} has no interface {name}, which is declared '
                f'as its end of link "{key}"; it has: {", ".join(found)}')
        _set_link(host, found[name], end)
        _add_addresses(host, found[name], end.addresses)
    for address in own.loopback:
        _add_addresses(host, found['lo'], [address])


def join(declared: declaration.Bed, host: channel.Host,
         macs: dict[str, dict[str, str]]) -> None:
    """What needs the other ends: neighbours and routes."""
    own = declared.hosts[host.name]
    for key, (link, end) in declared.ends(host.name).items():
        name = own.access.interfaces[key]
        for other in link.ends if link.permanent_neighbours else ():
            if other is end:
                continue
            access = declared.hosts[other.host].access
            mac = macs[other.host][access.interfaces[other.interface]]
            for address in other.addresses:
                bare = str(ipaddress.ip_interface(address).ip)
                host.undo(['ip', 'neighbour', 'del', bare, 'dev', name])
                host.run(['ip', 'neighbour', 'replace', bare, 'lladdr', mac,
                          'dev', name, 'nud', 'permanent'])
    for route in own.routes:
        _add_route(host, route)


def macs(host: channel.Host) -> dict[str, str]:
    """Of its interfaces by their names."""
    return {name: link['address'] for name, link in _shown(host).items()
            if 'address' in link}


def interfaces(declared: declaration.Bed, name: str,
               macs: dict[str, dict[str, str]],
               ) -> dict[str, interface.Interface]:
    """As interface.Host has them."""
    own = declared.hosts[name]
    found = {
        key: interface.Interface(
            own.access.interfaces[key], link.name,
            macs[name][own.access.interfaces[key]], end.nic.mtu,
            end.addresses,
            tuple(other.host for other in link.ends if other is not end))
        for key, (link, end) in declared.ends(name).items()}
    if own.loopback:
        found['lo'] = interface.Interface(
            'lo', 'lo', '00:00:00:00:00:00', 65536, own.loopback, ())
    return found


def describe(host: interface.Host) -> dict[str, Any]:
    """For a fingerprint."""
    return {key: nics.describe(host, end.name)
            for key, end in host.interfaces.items() if end.peers}


def _set_link(host, link, end):
    name = link['ifname']
    if link['mtu'] != end.nic.mtu:
        host.undo(['ip', 'link', 'set', 'dev', name, 'mtu', link['mtu']])
        host.run(['ip', 'link', 'set', 'dev', name, 'mtu', end.nic.mtu])
    if 'UP' not in link['flags']:
        host.undo(['ip', 'link', 'set', 'dev', name, 'down'])
        host.run(['ip', 'link', 'set', 'dev', name, 'up'])
    for words in nics.restoring(host, name, end.nic):
        host.undo(words)
    nics.set_hardware(host, name, end.nic)
    nics.set_offloads(host, name, dict(end.nic.offloads))


def _add_addresses(host, link, addresses):
    there = {f'{one["local"]}/{one["prefixlen"]}'
             for one in link['addr_info'] if 'local' in one}
    for address in addresses:
        if address in there:
            continue
        words = [address, 'dev', link['ifname']]
        host.undo(['ip', 'address', 'del', *words])
        host.run(['ip', 'address', 'add', *words,
                  *(['nodad'] if ':' in address else [])])


def _add_route(host, route):
    family = '-6' if ':' in route.to else '-4'
    there = host.run(['ip', family, 'route', 'show', 'exact',
                      route.to]).stdout
    if there.strip():
        raise errors.BenchError(
            f'host {host.name} has a route to {route.to} already, which the '
            f'bed does not replace: {there.strip()}')
    host.undo(['ip', family, 'route', 'del', route.to])
    host.run(['ip', family, *routing.command(route).split()])


def _shown(host):
    done = host.run(['ip', '-json', 'address', 'show'])
    return {link['ifname']: link for link in json.loads(done.stdout)}
