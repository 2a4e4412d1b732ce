# SPDX-License-Identifier: Apache-2.0
"""ExaBGP as a speaker, over the pipes to its child process.

Commands are lines of text. ExaBGP answers each with optional lines of payload
and then 'done' or 'error'. Only their order assigns answers to commands.
Events may arrive in between, each a JSON object on a line of its own.
"""

import collections
import collections.abc
import ipaddress
import json
import logging
import os
import random
import select
import time

from octavia_xdp_provider.agent.bgp import speaker
from octavia_xdp_provider.agent.bgp.route import FAMILIES
from octavia_xdp_provider.agent.bgp.route import Network
from octavia_xdp_provider.agent.bgp.route import Route

LOG = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 5.0

# Limits of one batch of commands. A batch fits into one atomic write to a
# pipe, so that a killed writer never leaves half a command behind.
COMMANDS_MAX = 24
WRITE_BYTES_MAX = select.PIPE_BUF

_FENCE_LENGTH = 16

# Attribute of a Route → ExaBGP's keyword; the AS path is built separately.
_KEYWORDS = {'communities': 'community',
             'large_communities': 'large-community',
             'med': 'med',
             'local_preference': 'local-preference'}


class ExaBgp:
    """A speaker.Speaker that commands ExaBGP.

    :param reader: file descriptor that ExaBGP's answers come from.
    :param writer: file descriptor that takes commands.
    """

    capabilities = frozenset((*_KEYWORDS, 'as_path_prepend'))

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer
        self._changed: speaker.SessionChanged = _ignore
        self._buffer = b''
        self._lines: collections.deque[str] = collections.deque()
        self._neighbours: dict[str, speaker.Neighbour] = {}

    def fileno(self) -> int:
        return self._reader

    def subscribe(self, changed: speaker.SessionChanged) -> None:
        self._changed = changed

    def synchronise(self) -> None:
        """Discard answers that a predecessor has not read.

        The pipes outlive an announcer that was killed. A random sequence of
        two commands without effect and with different answers marks the place
        in the stream where answers to this process begin.
        """
        fence = random.choices(('#', 'version'), k=_FENCE_LENGTH)
        expected: list[str] = []
        for command in fence:
            expected += ['done'] if command == '#' else ['version', 'done']
        self._write(['reset', 'enable-ack', *fence])
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        seen: collections.deque[str] = collections.deque(
            maxlen=len(expected))
        while list(seen) != expected:
            line = self._next_line(deadline)
            seen.append('version' if line.startswith('exabgp ') else line)

    def neighbours(self) -> dict[str, speaker.Neighbour]:
        payload = self._query('show neighbor json')
        try:
            # "state" would be down in the first second of a session.
            self._neighbours = {
                peer['peer']['address']: speaker.Neighbour(
                    peer['fsm'] == 'ESTABLISHED',
                    ipaddress.ip_address(peer['local']['address']).version,
                    _versions(peer['local']['families']),
                    _versions(peer['peer']['families']),
                    int(peer['local']['as']),
                    int(peer['peer']['as']))
                for peer in json.loads(''.join(payload))}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise speaker.SpeakerError(
                f'unexpected neighbours: {error!r}') from error
        return dict(self._neighbours)

    def routes(self) -> dict[str, set[Network]]:
        routes: dict[str, set[Network]] = {}
        for line in self._query('show adj-rib out'):
            try:
                neighbour, _afi, _safi, prefix, *_rest = line.split()
                routes.setdefault(neighbour, set()).add(
                    ipaddress.ip_network(prefix))
            except ValueError as error:
                raise speaker.SpeakerError(
                    f'unexpected route: {error}') from error
        return routes

    def problem(self, route: Route) -> str | None:
        carriers = self._carriers(route.prefix)
        if not carriers:
            return ('no neighbour in exabgp.conf has the family '
                    f'{FAMILIES[route.prefix.version]}')
        if route.next_hop is None and self._lacks_self(route.prefix):
            return ('over an IPv4 session it needs a next hop, set [agent] '
                    'next_hop_v6')
        if route.as_path_prepend and (
                len({carrier.local_as for carrier in carriers}) > 1
                or any(carrier.local_as == carrier.peer_as
                       for carrier in carriers)):
            return ('its AS path can be prepended to only in sessions from '
                    'one AS to others')
        return None

    def announce(self, routes: collections.abc.Sequence[Route]
                 ) -> list[Route]:
        return self._change('announce', routes)

    def withdraw(self, routes: collections.abc.Sequence[Route]
                 ) -> list[Route]:
        return self._change('withdraw', routes)

    def receive(self) -> None:
        self._receive(0)
        while self._lines:
            LOG.warning('unexpected line from ExaBGP: %s',
                        self._lines.popleft())

    def _carriers(self, prefix: Network) -> list[speaker.Neighbour]:
        return [neighbour for neighbour in self._neighbours.values()
                if prefix.version in neighbour.carries]

    def _lacks_self(self, prefix: Network) -> bool:
        """Return whether "next-hop self" needs an IPv6 address of an IPv4
        session, which has none."""
        return prefix.version == 6 and any(
            carrier.session != 6 for carrier in self._carriers(prefix))

    def _change(self, verb: str, routes: collections.abc.Sequence[Route]
                ) -> list[Route]:
        refused = []
        for chunk in _chunks([(route, self._command(verb, route))
                              for route in routes]):
            self._write([command for _route, command in chunk])
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
            for route, _command in chunk:
                accepted, payload = self._answer(deadline)
                if payload:
                    raise speaker.SpeakerError(f'unexpected: {payload[0]}')
                if not accepted:
                    refused.append(route)
        return refused

    def _command(self, verb: str, route: Route) -> str:
        """Return the command for a change of one route.

        Withdrawals include next hop and attributes: if these are equal, the
        last of several pending changes takes effect, otherwise ExaBGP may
        send the changes in another order.
        """
        next_hop: object = route.next_hop or 'self'
        if route.next_hop is None and self._lacks_self(route.prefix):
            # This is a withdrawal, for which any address will do.
            next_hop = route.prefix.network_address
        parts = [f'{verb} route {route.prefix} next-hop {next_hop}']
        attributes = route.attributes()
        attributes.pop('as_path_prepend', None)
        for name, value in attributes.items():
            text = (f'[ {" ".join(value)} ]' if isinstance(value, tuple)
                    else value)
            parts.append(f'{_KEYWORDS[name]} {text}')
        if route.as_path_prepend:
            # ExaBGP adds its own AS only if the command has no path.
            path = [str(carrier.local_as) for carrier
                    in self._carriers(route.prefix)[:1]]
            path *= 1 + route.as_path_prepend
            parts.append(f'as-path [ {" ".join(path)} ]')
        return ' '.join(parts)

    def _query(self, command: str) -> list[str]:
        self._write([command])
        accepted, payload = self._answer(time.monotonic() + ANSWER_TIMEOUT_S)
        if not accepted:
            raise speaker.SpeakerError(f'ExaBGP refuses "{command}"')
        return payload

    def _answer(self, deadline: float) -> tuple[bool, list[str]]:
        payload: list[str] = []
        while True:
            line = self._next_line(deadline)
            if line in ('done', 'error'):
                return line == 'done', payload
            payload.append(line)

    def _next_line(self, deadline: float) -> str:
        while not self._lines:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise speaker.SpeakerError('ExaBGP does not answer')
            self._receive(left_s)
        return self._lines.popleft()

    def _receive(self, timeout_s: float) -> None:
        if not _is_ready(self._reader, select.POLLIN, timeout_s):
            return
        data = os.read(self._reader, 65536)
        if not data:
            raise speaker.SpeakerClosed
        *lines, self._buffer = (self._buffer + data).split(b'\n')
        for line in lines:
            text = line.decode(errors='replace').strip()
            if text.startswith('{'):
                self._event(text)
            elif text:
                self._lines.append(text)

    def _event(self, text: str) -> None:
        try:
            event = json.loads(text)
            if event['type'] != 'state':
                return
            neighbour = event['neighbor']
            address = neighbour['address']['peer']
            state = neighbour['state']
        except (KeyError, TypeError, ValueError):
            LOG.warning('unexpected event from ExaBGP: %s', text)
            return
        self._changed(address, state == 'up', neighbour.get('reason', ''))

    def _write(self, commands: list[str]) -> None:
        if not _is_ready(self._writer, select.POLLOUT, ANSWER_TIMEOUT_S):
            raise speaker.SpeakerError('ExaBGP takes no commands')
        data = ''.join(f'{command}\n' for command in commands).encode()
        try:
            os.write(self._writer, data)
        except BrokenPipeError:
            raise speaker.SpeakerClosed from None


def _ignore(_address: str, _up: bool, _reason: str) -> None:
    """Do nothing, until ``subscribe`` is called."""


def _chunks(commands: list[tuple[Route, str]]
            ) -> collections.abc.Iterator[list[tuple[Route, str]]]:
    """Split commands into batches that fit into one write."""
    chunk: list[tuple[Route, str]] = []
    room = 0
    for route, command in commands:
        size = len(command) + 1
        if size > room or len(chunk) == COMMANDS_MAX:
            if chunk:
                yield chunk
            chunk, room = [], WRITE_BYTES_MAX
        chunk.append((route, command))
        room -= size
    if chunk:
        yield chunk


def _versions(families: dict[str, object]) -> frozenset[int]:
    return frozenset(version for version, family in FAMILIES.items()
                     if families.get(family))


def _is_ready(fd: int, event: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(timeout_s * 1000))
