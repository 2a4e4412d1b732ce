# SPDX-License-Identifier: Apache-2.0
"""Finds the interface and link addresses for a host's destinations."""

from collections.abc import Iterable
import dataclasses
import json
import time

from bench import errors
from bench.beds import interface

SECONDS = 5  # timeout of neighbours
# Sends a datagram to each, so that the kernel resolves its link address.
_TOUCH = '''
import socket, sys
for text in sys.argv[1:]:
    kind = socket.AF_INET6 if ':' in text else socket.AF_INET
    socket.socket(kind, socket.SOCK_DGRAM).sendto(b'', (text, 9))
'''


@dataclasses.dataclass(frozen=True)
class NextHop:
    """:ivar mac: MAC of the next router or the destination itself."""

    device: str
    ifindex: int
    mtu: int
    source_mac: str
    mac: str


def _arrays(text: str) -> list:
    """Parse output of ``ip -json -batch``, an array for each command."""
    decoder, at, arrays = json.JSONDecoder(), 0, []
    text = text.strip()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        arrays.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return arrays


def _routes(host: interface.Host, addresses: list[str]) -> list[dict]:
    commands = ''.join(f'route get {address}\n' for address in addresses)
    output = host.run(['ip', '-json', '-batch', '-'], stdin=commands).stdout
    routes = [array[0] for array in _arrays(output)]
    for address, route in zip(addresses, routes, strict=True):
        if route.get('type') == 'local' or route['dev'] == 'lo':
            raise errors.BenchError(
                f'{host.name}: {address} is an address of this host itself; '
                'the generator has to be another one')
    return routes


def _neighbours(host: interface.Host) -> dict[tuple[str, str], str]:
    entries = _arrays(host.run(['ip', '-json', 'neigh', 'show']).stdout)
    return {(entry['dev'], entry['dst']): entry['lladdr']
            for entry in (entries[0] if entries else [])
            if 'lladdr' in entry and 'FAILED' not in entry.get('state', ())}


def _resolved(host: interface.Host, hops: dict[tuple[str, str], str],
              ) -> dict[tuple[str, str], str]:
    """Return link addresses of next hops (device, address).

    :param hops: an address behind each next hop, because link-local ones
        cannot be addressed without their interface.
    """
    end = time.monotonic() + SECONDS * host.patience
    while True:
        known = _neighbours(host)
        missing = hops.keys() - known.keys()
        if not missing:
            return known
        if time.monotonic() > end:
            device, address = min(missing)
            raise errors.BenchError(
                f'{host.name}: {address} on {device} does not answer to ARP '
                'or neighbour discovery; is it up, and on this link?')
        addresses = sorted(hops[hop] for hop in missing)
        for first in range(0, len(addresses), 256):
            host.run(['python3', '-c', _TOUCH,
                      *addresses[first:first + 256]], check=False)
        time.sleep(0.1)


def find(host: interface.Host, addresses: Iterable[str],
         ) -> dict[str, NextHop]:
    """Return the next hop of each address.

    :raises BenchError: there is no route, or a next hop does not answer.
    """
    wanted = sorted(set(addresses))
    routes = dict(zip(wanted, _routes(host, wanted), strict=True))
    hops = {address: (route['dev'], route.get('gateway', address))
            for address, route in routes.items()}
    known = _resolved(host, {hop: address for address, hop in hops.items()})
    links = {link['ifname']: link for link in json.loads(
        host.run(['ip', '-json', 'link', 'show']).stdout)}
    return {address: NextHop(
        device, links[device]['ifindex'], links[device]['mtu'],
        links[device]['address'], known[device, hop])
        for address, (device, hop) in hops.items()}
