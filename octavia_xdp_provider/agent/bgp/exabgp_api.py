# SPDX-License-Identifier: Apache-2.0
"""A conversation with ExaBGP over the pipes that it gives to a child.

Commands are lines of text. ExaBGP answers each with lines of payload, if the
command has any, and then 'done' or 'error'. Answers carry no identity but
their order. In between come events, JSON objects on a line of their own.
"""

import collections
import ipaddress
import json
import logging
import os
import random
import select
import time
import typing

LOG = logging.getLogger(__name__)

ANSWER_TIMEOUT = 5.0

# Commands whose answers are awaited together. They fit into one atomic write
# to a pipe, so that a writer that is killed leaves no half command behind.
BATCH = 24

_FENCE_LENGTH = 16

FAMILIES = {4: 'ipv4 unicast', 6: 'ipv6 unicast'}


class ConversationError(Exception):
    """ExaBGP did not answer, or not what was asked for."""


class Closed(Exception):
    """ExaBGP is gone."""


class Neighbour(typing.NamedTuple):
    """A neighbour of ExaBGP's configuration.

    ``session``: IP version of the BGP session. ``carries``: IP versions of
    the routes that it is configured for. ``takes``: those that the router
    takes, once the session is up.
    """

    up: bool
    session: int
    carries: frozenset
    takes: frozenset


class ExaBgp:
    """Commands to ExaBGP and their answers.

    :param reader: file descriptor that ExaBGP's answers come from.
    :param writer: file descriptor that takes commands.
    :param on_state: called with (neighbour's address, whether the session is
        up, the reason or '') when a BGP session changes.
    """

    def __init__(self, reader, writer, on_state):
        self._reader = reader
        self._writer = writer
        self._on_state = on_state
        self._buffer = b''
        self._lines = collections.deque()

    def synchronise(self):
        """Discard whatever answers a predecessor has not read.

        The pipes outlive an announcer that was killed. A random sequence of
        two commands without effect, whose answers differ, marks the place
        in the stream from which on the answers are ours.
        """
        fence = random.choices(('#', 'version'), k=_FENCE_LENGTH)
        expected = []
        for command in fence:
            expected += ['done'] if command == '#' else ['version', 'done']
        self._write(['reset', 'enable-ack', *fence])
        deadline = time.monotonic() + ANSWER_TIMEOUT
        seen = collections.deque(maxlen=len(expected))
        while list(seen) != expected:
            line = self._next_line(deadline)
            seen.append('version' if line.startswith('exabgp ') else line)

    def neighbours(self):
        """Neighbour by neighbour's address."""
        payload = self._ask('show neighbor json')
        try:
            # Not "state", which is down in the first second of a session.
            return {
                peer['peer']['address']: Neighbour(
                    peer['fsm'] == 'ESTABLISHED',
                    ipaddress.ip_address(peer['local']['address']).version,
                    _versions(peer['local']['families']),
                    _versions(peer['peer']['families']))
                for peer in json.loads(''.join(payload))}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConversationError(
                f'unexpected neighbours: {error!r}') from error

    def announced(self):
        """The prefixes that ExaBGP has for each neighbour."""
        found = collections.defaultdict(set)
        for line in self._ask('show adj-rib out'):
            try:
                neighbour, _afi, _safi, prefix, *_rest = line.split()
                found[neighbour].add(ipaddress.ip_network(prefix))
            except ValueError as error:
                raise ConversationError(
                    f'unexpected route: {error}') from error
        return found

    def announce(self, routes):
        """Announce (prefix, next hop) pairs; returns those refused."""
        return self._change('announce', routes)

    def withdraw(self, routes):
        """Withdraw (prefix, next hop) pairs; returns those refused."""
        return self._change('withdraw', routes)

    def pump(self):
        """Take in what ExaBGP says while nothing is asked."""
        self._receive(0)
        while self._lines:
            LOG.warning('unexpected line from ExaBGP: %s',
                        self._lines.popleft())

    def _change(self, verb, routes):
        refused = []
        for start in range(0, len(routes), BATCH):
            batch = routes[start:start + BATCH]
            # Withdrawals name the next hop too: with equal attributes
            # ExaBGP lets the last of several changes that wait for being
            # sent win, otherwise it may send them in another order.
            self._write([f'{verb} route {prefix} next-hop {hop or "self"}'
                         for prefix, hop in batch])
            deadline = time.monotonic() + ANSWER_TIMEOUT
            for route in batch:
                accepted, payload = self._answer(deadline)
                if payload:
                    raise ConversationError(f'unexpected: {payload[0]}')
                if not accepted:
                    refused.append(route)
        return refused

    def _ask(self, command):
        self._write([command])
        accepted, payload = self._answer(time.monotonic() + ANSWER_TIMEOUT)
        if not accepted:
            raise ConversationError(f'ExaBGP refuses "{command}"')
        return payload

    def _answer(self, deadline):
        payload = []
        while True:
            line = self._next_line(deadline)
            if line in ('done', 'error'):
                return line == 'done', payload
            payload.append(line)

    def _next_line(self, deadline):
        while not self._lines:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConversationError('ExaBGP does not answer')
            self._receive(left)
        return self._lines.popleft()

    def _receive(self, timeout):
        if not _ready(self._reader, select.POLLIN, timeout):
            return
        data = os.read(self._reader, 65536)
        if not data:
            raise Closed
        *lines, self._buffer = (self._buffer + data).split(b'\n')
        for line in lines:
            text = line.decode(errors='replace').strip()
            if text.startswith('{'):
                self._event(text)
            elif text:
                self._lines.append(text)

    def _event(self, text):
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
        self._on_state(address, state == 'up', neighbour.get('reason', ''))

    def _write(self, commands):
        if not _ready(self._writer, select.POLLOUT, ANSWER_TIMEOUT):
            raise ConversationError('ExaBGP takes no commands')
        data = ''.join(f'{command}\n' for command in commands).encode()
        try:
            os.write(self._writer, data)
        except BrokenPipeError:
            raise Closed from None


def _versions(families):
    return frozenset(version for version, family in FAMILIES.items()
                     if families.get(family))


def _ready(fd, event, timeout):
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(timeout * 1000))
