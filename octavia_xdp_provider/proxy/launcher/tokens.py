# SPDX-License-Identifier: Apache-2.0
"""Tokens: addresses that stand for members behind hypervisors.

HAProxy connects to a token as to any address. At the interfaces of the traffic
namespace the datapath's probe program gives its packets the tunnel of the
member, and drops those to addresses of ``[proxy] token_networks`` that are no
token, so that none is ever in the fabric as it is.

Its tables are pinned: they work without the launcher.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Set
import contextlib
import ipaddress
import json
import os
import socket
from typing import Any
from typing import NamedTuple
import zlib

from oslo_log import log as logging

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.proxy.launcher import namespace

LOG = logging.getLogger(__name__)

_ROUTES_MAX = 8
_ENCAPSULATIONS = {'geneve': datapath.Encapsulation.GENEVE,
                   'srv6': datapath.Encapsulation.SRV6}


class Token(NamedTuple):
    """See proxy_launch.Token."""

    address: str
    member: str
    end: str
    encapsulation: str
    key: int


def of(launch: proxy_launch.Launch) -> set[Token]:
    return {Token(token['address'], token['member'],
                  token['tunnel']['address'],
                  token['tunnel']['encapsulation'], token['tunnel']['key'])
            for token in launch.get('tokens', ())}


def problem(launch: proxy_launch.Launch, networks: Iterable[Any]
            ) -> str | None:
    """Return why a load balancer cannot have its tokens, or None.

    Packets to another address would leave as they are, and what the datapath
    refuses would concern all load balancers.
    """
    known = list(networks)
    for token in launch.get('tokens', ()):
        tunnel = token['tunnel']
        if tunnel['encapsulation'] == 'geneve' and tunnel['key'] >> 24:
            return (f'token {token["address"]} has key {tunnel["key"]}, which '
                    'is more than the 24 bits of Geneve')
        if not any(ipaddress.ip_address(token['address']) in network
                   for network in known):
            return (f'token {token["address"]} is not of [proxy] '
                    'token_networks of this node, which must be that of the '
                    'controllers')
    return None


def unique(tokens: Iterable[Token]) -> set[Token]:
    """Return tokens without all that claim the same address but the first."""
    by_address: dict[str, Token] = {}
    for token in tokens:
        first = by_address.setdefault(token.address, token)
        if first != token:
            LOG.error('Token %s is claimed twice: for member %s with key %s '
                      'at %s, and, which is not done, for member %s with key '
                      '%s at %s.', token.address, first.member, first.key,
                      first.end, token.member, token.key, token.end)
    return set(by_address.values())


class Tokens:
    """The table of tokens in the kernel.

    :param networks: ``[proxy] token_networks``; without any nothing is done.
    :param pins: directory of the tables below a bpffs.
    """

    def __init__(self, traffic: namespace.Namespace, networks: Iterable[Any],
                 lock: str, pins: str, library: str | None = None) -> None:
        self._namespace = traffic
        self._networks = list(networks)
        self._lock = lock
        self._pins = pins
        self._library = library
        self._applied: set[Token] | None = None
        self._problem: str | None = None

    def apply(self, tokens: set[Token]) -> bool:
        """Make the table have exactly these tokens.

        Failures are logged, and concern no load balancer without tokens.

        :returns: whether packets to all tokens take their tunnels.
        """
        if not self._networks or tokens == self._applied:
            return True
        try:
            self._apply(tokens)
        except (OSError, datapath.DatapathError, namespace.Failure) as error:
            self._applied = None
            if str(error) != self._problem:
                LOG.error('Members behind hypervisors cannot be reached: %s',
                          error)
            self._problem = str(error)
            return False
        if self._problem:
            LOG.info('Members behind hypervisors can be reached again.')
        self._applied, self._problem = set(tokens), None
        return True

    def forget(self) -> None:
        """Compare with the kernel at the next ``apply``."""
        self._applied = None

    def has(self, address: str) -> bool:
        """Return whether an address can only be a token."""
        return any(ipaddress.ip_address(address) in network
                   for network in self._networks)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[datapath.Datapath]:
        os.makedirs(os.path.dirname(self._lock), exist_ok=True)
        # Nothing is forwarded here: the smallest tables.
        with datapath.Datapath(self._pins, self._lock, create=True,
                               services_max=1, members_max=1, flows_max=8,
                               library=self._library) as node:
            yield node

    def _apply(self, tokens: set[Token]) -> None:
        with self._opened() as node, self._namespace.entered():
            node.set_token_networks([str(network)
                                     for network in self._networks])
            node.set_node(datapath.NodeSettings(
                _source(4, tokens), _source(6, tokens)))
            node.set_probes(_table(tokens, node.probes(), node.probe_marks))
            for index, name in socket.if_nameindex():
                if name != 'lo':
                    node.attach_probe(index)


def _source(version: int, tokens: Set[Token]) -> str | None:
    """Return the address of this namespace for tunnels of an IP version, if
    there are any."""
    ends = {token.end for token in tokens
            if ipaddress.ip_address(token.end).version == version}
    # The first ones may be unreachable.
    for end in sorted(ends)[:_ROUTES_MAX]:
        with contextlib.suppress(namespace.Failure):
            route = json.loads(namespace.run(['ip', '-j', 'route', 'get',
                                              end]))[0]
            return str(route['prefsrc'])
    return None


def _table(tokens: Set[Token], held: Mapping[int, datapath.ProbeTarget],
           marks: range) -> dict[int, datapath.ProbeTarget]:
    """Return mark → target. A token keeps its mark."""
    by_address = {target.vip: mark for mark, target in held.items()}
    table: dict[int, datapath.ProbeTarget] = {}
    kept = {mark for token in tokens
            if (mark := by_address.get(token.address)) is not None}
    for token in sorted(tokens):
        mark = by_address.get(token.address)
        if mark is None:
            mark = _free(token.address, marks,
                         lambda number: number in kept or number in table)
        table[mark] = datapath.ProbeTarget(
            token.address, token.member, tunnel=datapath.Tunnel(
                token.end, _ENCAPSULATIONS[token.encapsulation], token.key),
            is_token=True)
    return table


def _free(address: str, marks: range, is_taken: Callable[[int], bool]) -> int:
    place = zlib.crc32(address.encode()) % len(marks)
    while is_taken(marks[place]):
        place = (place + 1) % len(marks)
    return marks[place]
