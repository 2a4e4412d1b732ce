# SPDX-License-Identifier: Apache-2.0
"""ExaBGP as speaker, over the pipes that it gives to a child.

Commands are lines of text. ExaBGP answers each with lines of payload, if the
command has any, and then 'done' or 'error'. Answers carry no identity but
their order. In between come events, JSON objects on a line of their own.
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

# Commands whose answers are awaited together. They fit into one atomic write
# to a pipe, so that a writer that is killed leaves no half command behind.
COMMANDS_MAX = 24
WRITE_BYTES_MAX = select.PIPE_BUF

_FENCE_LENGTH = 16

# Attributes of a Route: ExaBGP's word for each that is one value.
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
        """Discard whatever answers a predecessor has not read.

        The pipes outlive an announcer that was killed. A random sequence of
        two commands without effect, whose answers differ, marks the place
        in the stream from which on the answers are ours.
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
        payload = self._ask('show neighbor json')
        try:
            # Not "state", which is down in the first second of a session.
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
        found: dict[str, set[Network]] = {}
        for line in self._ask('show adj-rib out'):
            try:
                neighbour, _afi, _safi, prefix, *_rest = line.split()
                found.setdefault(neighbour, set()).add(
                    ipaddress.ip_network(prefix))
            except ValueError as error:
                raise speaker.SpeakerError(
                    f'unexpected route: {error}') from error
        return found

    def problem(self, route: Route) -> str | None:
        carriers = self._carriers(route.prefix)
        if not carriers:
            return ('no neighbour in exabgp.conf has the family '
                    f'{FAMILIES[route.prefix.version]}')
        if route.next_hop is None and self._has_no_self(route.prefix):
            return ('over an IPv4 session it needs a next hop, set [agent] '
                    'next_hop_v6')
        if route.as_path_prepend and (
                len({one.local_as for one in carriers}) > 1
                or any(one.local_as == one.peer_as for one in carriers)):
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
        return [one for one in self._neighbours.values()
                if prefix.version in one.carries]

    def _has_no_self(self, prefix: Network) -> bool:
        """Whether ExaBGP would have to name an IPv6 address of its own in
        an IPv4 session, where it has none."""
        return prefix.version == 6 and any(
            one.session != 6 for one in self._carriers(prefix))

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
        """A change of one route.

        Withdrawals name next hop and attributes, too: with equal ones ExaBGP
        lets the last of several changes that wait for being sent win,
        otherwise it may send them in another order.
        """
        next_hop: object = route.next_hop or 'self'
        if route.next_hop is None and self._has_no_self(route.prefix):
            # What a predecessor announced: any address does.
            next_hop = route.prefix.network_address
        words = [f'{verb} route {route.prefix} next-hop {next_hop}']
        attributes = route.attributes()
        attributes.pop('as_path_prepend', None)
        for name, value in attributes.items():
            text = (f'[ {" ".join(value)} ]' if isinstance(value, tuple)
                    else value)
            words.append(f'{_KEYWORDS[name]} {text}')
        if route.as_path_prepend:
            # ExaBGP puts its own AS into a path only if it is given none.
            path = [str(one.local_as) for one
                    in self._carriers(route.prefix)[:1]]
            path *= 1 + route.as_path_prepend
            words.append(f'as-path [ {" ".join(path)} ]')
        return ' '.join(words)

    def _ask(self, command: str) -> list[str]:
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
            left = deadline - time.monotonic()
            if left <= 0:
                raise speaker.SpeakerError('ExaBGP does not answer')
            self._receive(left)
        return self._lines.popleft()

    def _receive(self, timeout_s: float) -> None:
        if not _ready(self._reader, select.POLLIN, timeout_s):
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
        if not _ready(self._writer, select.POLLOUT, ANSWER_TIMEOUT_S):
            raise speaker.SpeakerError('ExaBGP takes no commands')
        data = ''.join(f'{command}\n' for command in commands).encode()
        try:
            os.write(self._writer, data)
        except BrokenPipeError:
            raise speaker.SpeakerClosed from None


def _ignore(_address: str, _up: bool, _reason: str) -> None:
    """Nobody has subscribed."""


def _chunks(commands: list[tuple[Route, str]]
            ) -> collections.abc.Iterator[list[tuple[Route, str]]]:
    """What is written at once and answered together."""
    chunk: list[tuple[Route, str]] = []
    left = 0
    for route, command in commands:
        size = len(command) + 1
        if size > left or len(chunk) == COMMANDS_MAX:
            if chunk:
                yield chunk
            chunk, left = [], WRITE_BYTES_MAX
        chunk.append((route, command))
        left -= size
    if chunk:
        yield chunk


def _versions(families: dict[str, object]) -> frozenset[int]:
    return frozenset(version for version, family in FAMILIES.items()
                     if families.get(family))


def _ready(fd: int, event: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(timeout_s * 1000))
