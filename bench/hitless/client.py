# SPDX-License-Identifier: Apache-2.0
"""A client with thousands of HTTP connections that it keeps using.

It runs in the client's namespace and executes commands, lines of JSON on
standard input. Each is answered by a line on standard output when it is done.
Meanwhile it sends requests on all connections in turn.

``{"open": N}``: opens N connections. Answer: ``ports`` (the client's),
``failed`` (texts), ``living`` (number of all).
``{"round": true}``: waits until each connection has answered a new request or
is broken. Answer: ``living``, ``broken``.
``{"rest": true}``: sends no requests until the next round. The answer is
empty.

``{"close": NAME}``: closes those of a member, or all if NAME is null.
``{"close_ports": [PORT, …]}``: closes these. Answer: ``closed``, ``broken``.

``broken``: for each connection broken since the last answer, ``port`` (the
client's), ``member`` and ``why``.
"""

import collections
import contextlib
import errno
import json
import os
import select
import socket
import sys
import time

REQUEST = b'GET / HTTP/1.1\r\nHost: vip\r\n\r\n'
# Concurrent ones; others wait.
OPENING_MAX = 200
ASKED_MAX = 2000
# TCP retransmits lost packets after 0.2 s, 0.4 s and so on.
SILENCE_S = 60.0
OPEN_S = 60.0


class Connection:
    __slots__ = (
        'asked',
        'asked_in',
        'done_in',
        'member',
        'port',
        'received',
        'socket',
    )

    def __init__(self, opened):
        self.socket = opened
        self.port = None
        self.member = None
        self.received = b''
        self.asked = None  # time of the pending request, or None
        self.asked_in = self.done_in = 0  # rounds


def answer_of(received):
    """Return the body of a complete answer, or None."""
    head, separator, body = received.partition(b'\r\n\r\n')
    if not separator:
        return None
    for line in head.split(b'\r\n'):
        name, _, value = line.partition(b':')
        if name.lower() == b'content-length':
            if len(body) < int(value):
                return None
            return body.decode().strip()
    raise ValueError(f'an answer without Content-Length: {head!r}')


def _read_all(opened):
    """Read all bytes: with unread ones, close() would send a single RST. If
    that is lost, server and flow tables keep the connection for hours."""
    with contextlib.suppress(OSError):
        while opened.recv(65536):
            pass


class Client:
    def __init__(self, address, port, per_second):
        self._end = address, port
        self._family = socket.AF_INET6 if ':' in address else socket.AF_INET
        self._period = 1 / per_second
        self._epoll = select.epoll()
        self._all = {}  # file descriptor → Connection
        self._waiting = collections.deque()  # Connections awaiting their turn
        self._asked = {}  # file descriptor → Connection, oldest first
        self._opening = {}
        self._to_open = 0
        self._ports = []
        self._failed = []
        self._broken = []
        self._round = 0
        self._missing = 0  # connections without an answer in this round
        self._command = None
        self._rests = False
        self._next = time.monotonic()
        self._input = b''

    def run(self):
        os.set_blocking(0, False)
        self._epoll.register(0, select.EPOLLIN)
        while True:
            for descriptor, _event in self._epoll.poll(0.005):
                if descriptor == 0:
                    if not self._read_input():
                        return
                elif descriptor in self._opening:
                    self._finish_opening(descriptor)
                elif descriptor in self._all:
                    self._receive(self._all[descriptor])
            self._check_timeouts()
            self._begin_opening()
            self._ask()
            self._finish_command()

    def _read_input(self):
        more = os.read(0, 65536)
        if not more:
            return False
        self._input += more
        line, separator, rest = self._input.partition(b'\n')
        if separator:
            self._input = rest
            self._take(json.loads(line))
        return True

    def _take(self, command):
        self._command, value = next(iter(command.items()))
        if self._command == 'open':
            self._to_open = value
            self._ports = []
        elif self._command == 'round':
            self._rests = False
            self._round += 1
            self._missing = len(self._all)
        elif self._command == 'rest':
            self._rests = True
            self._answer()
        elif self._command == 'close':
            self._close(lambda connection: value in (None, connection.member))
        elif self._command == 'close_ports':
            ports = set(value)
            self._close(lambda connection: connection.port in ports)

    def _close(self, is_wanted):
        wanted = [connection for connection in self._all.values()
                  if is_wanted(connection)]
        for connection in wanted:
            _read_all(connection.socket)
            self._forget(connection)
        self._answer(closed=len(wanted), broken=self._take_broken())

    def _finish_command(self):
        if (self._command == 'open' and not self._to_open
                and not self._opening and not any(
                    connection.member is None
                    for connection in self._all.values())):
            failed, self._failed = self._failed, []
            self._answer(ports=self._ports, failed=failed,
                         living=len(self._all))
        elif self._command == 'round' and self._missing == 0:
            self._answer(living=len(self._all), broken=self._take_broken())

    def _answer(self, **answer):
        self._command = None
        print(json.dumps(answer), flush=True)

    def _take_broken(self):
        broken, self._broken = self._broken, []
        return broken

    def _begin_opening(self):
        while self._to_open and len(self._opening) < OPENING_MAX:
            self._to_open -= 1
            opened = socket.socket(self._family, socket.SOCK_STREAM)
            opened.setblocking(False)
            connection = Connection(opened)
            connection.asked = time.monotonic()
            status = opened.connect_ex(self._end)
            if status not in (0, errno.EINPROGRESS):
                opened.close()
                self._failed.append(os.strerror(status))
                continue
            self._opening[opened.fileno()] = connection
            self._epoll.register(opened.fileno(), select.EPOLLOUT)

    def _finish_opening(self, descriptor):
        connection = self._opening.pop(descriptor)
        status = connection.socket.getsockopt(socket.SOL_SOCKET,
                                              socket.SO_ERROR)
        if status:
            self._fail(connection, os.strerror(status))
            return
        connection.port = connection.socket.getsockname()[1]
        self._ports.append(connection.port)
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._epoll.modify(descriptor, select.EPOLLIN)
        self._all[descriptor] = connection
        self._send(connection)

    def _fail(self, connection, why):
        self._failed.append(why)
        self._epoll.unregister(connection.socket.fileno())
        connection.socket.close()

    def _check_timeouts(self):
        now = time.monotonic()
        for opening in list(self._opening.values())[:1]:
            if now - opening.asked > OPEN_S:
                del self._opening[opening.socket.fileno()]
                self._fail(opening, 'no answer to SYN')
        while self._asked:
            oldest = next(iter(self._asked.values()))
            if now - oldest.asked < SILENCE_S:
                return
            self._break(oldest, f'no answer for {SILENCE_S:.0f} s')

    def _ask(self):
        now = time.monotonic()
        # Do not catch up on time lost while other processes ran.
        self._next = max(self._next, now - 0.05)
        while (self._waiting and not self._rests and self._next <= now
               and len(self._asked) < ASKED_MAX):
            connection = self._waiting.popleft()
            if (connection.asked is None and
                    connection.socket.fileno() in self._all):
                self._next += self._period
                self._send(connection)

    def _send(self, connection):
        connection.asked = time.monotonic()
        connection.asked_in = self._round
        connection.received = b''
        self._asked[connection.socket.fileno()] = connection
        try:
            connection.socket.send(REQUEST)
        except OSError as error:
            self._break(connection, error.strerror)

    def _receive(self, connection):
        try:
            more = connection.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(connection, error.strerror)
            return
        if not more:
            self._break(connection, 'closed by the server')
            return
        connection.received += more
        body = answer_of(connection.received)
        if body is None:
            return
        connection.member = body
        connection.asked = None
        del self._asked[connection.socket.fileno()]
        if connection.asked_in == self._round != connection.done_in:
            connection.done_in = self._round
            self._missing -= 1
        self._waiting.append(connection)

    def _break(self, connection, why):
        if connection.member is None:
            self._failed.append(why)
        else:
            self._broken.append({'port': connection.port,
                                 'member': connection.member, 'why': why})
        if connection.done_in != self._round:
            self._missing -= 1
        self._forget(connection)

    def _forget(self, connection):
        descriptor = connection.socket.fileno()
        del self._all[descriptor]
        self._asked.pop(descriptor, None)
        self._epoll.unregister(descriptor)
        connection.socket.close()


def main():
    address, port, per_second = sys.argv[1:]
    print(json.dumps({}), flush=True)
    Client(address, int(port), float(per_second)).run()


if __name__ == '__main__':
    main()
