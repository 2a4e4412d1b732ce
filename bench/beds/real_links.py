# SPDX-License-Identifier: Apache-2.0
"""Configures interfaces, addresses and routes of real machines for a bed.

The machine's agent reverts all changes. Existing configuration stays.
"""

import ipaddress
import json

from bench import errors
from bench.beds import channel
from bench.beds import declaration
from bench.beds import nics
from bench.beds import routing


def prepare(declared: declaration.Bed, host: channel.Host) -> None:
    """Set sysctls, interfaces and addresses."""
    shown = _shown(host)
    own = declared.hosts[host.name]
    for name, value in own.sysctl.items():
        old = host.run(['sysctl', '-n', name]).stdout.strip()
        host.undo(['sysctl', '-qw', f'{name}={old}'])
        host.run(['sysctl', '-qw', f'{name}={value}'])
    for key, (_, end) in declared.ends(host.name).items():
        name = own.access.interfaces[key]
        if name not in shown:
            raise errors.BenchError(
                f'host {host.name} has no interface {name}, which is declared '
                f'as its end of link "{key}"; it has: {", ".join(shown)}')
        _set_link(host, shown[name], end)
        _add_addresses(host, shown[name], end.addresses)
    for address in own.loopback:
        _add_addresses(host, shown['lo'], [address])


def join(declared: declaration.Bed, host: channel.Host,
         macs: dict[str, dict[str, str]]) -> None:
    """Configure what needs the other ends: neighbours and routes."""
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
    present = {f'{info["local"]}/{info["prefixlen"]}'
               for info in link['addr_info'] if 'local' in info}
    for address in addresses:
        if address in present:
            continue
        words = [address, 'dev', link['ifname']]
        host.undo(['ip', 'address', 'del', *words])
        host.run(['ip', 'address', 'add', *words,
                  *(['nodad'] if ':' in address else [])])


def _add_route(host, route):
    family = '-6' if ':' in route.to else '-4'
    present = host.run(['ip', family, 'route', 'show', 'exact',
                        route.to]).stdout
    if present.strip():
        raise errors.BenchError(
            f'host {host.name} has a route to {route.to} already, which the '
            f'bed does not replace: {present.strip()}')
    host.undo(['ip', family, 'route', 'del', route.to])
    host.run(['ip', family, *routing.command(route).split()])


def _shown(host):
    done = host.run(['ip', '-json', 'address', 'show'])
    return {link['ifname']: link for link in json.loads(done.stdout)}
