# SPDX-License-Identifier: Apache-2.0
"""A client with thousands of HTTP connections that it keeps using.

It runs in the client's namespace and does what lines of JSON on its standard
input say; each is answered by a line on standard output once it is done. All
the while it asks one connection after the other, in turn.

``{"open": N}``: opens N more. Answer: ``ports`` (the client's),
``failed`` (texts), ``living`` (of all).
``{"round": true}``: until each connection was asked and has answered, or is
broken, from now on. Answer: ``living``, ``broken``.
``{"rest": true}``: asks nobody from now on, until the next round. Answer:
nothing in it.

``{"close": NAME}``: closes those of a member, or all if NAME is null.
``{"close_ports": [PORT, …]}``: closes these. Answer: ``closed``, ``broken``.

``broken``: of each connection that broke since the last answer, ``port`` (the
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
# At once; others wait for their turn.
OPENING_MAX = 200
ASKED_MAX = 2000
# TCP repeats what is lost after 0.2 s, 0.4 s and so on.
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
        self.asked = None  # when, or None: nothing is under way
        self.asked_in = self.done_in = 0  # rounds


def answer_of(received):
    """The body of a whole answer, or None."""
    head, found, body = received.partition(b'\r\n\r\n')
    if not found:
        return None
    for line in head.split(b'\r\n'):
        name, _, value = line.partition(b':')
        if name.lower() == b'content-length':
            if len(body) < int(value):
                return None
            return body.decode().strip()
    raise ValueError(f'an answer without Content-Length: {head!r}')


def _read_all(one):
    """With unread bytes close() would send a RST, once, which may be lost: its
    server, and whoever keeps flows, would know the connection for hours."""
    with contextlib.suppress(OSError):
        while one.recv(65536):
            pass


class Client:
    def __init__(self, address, port, per_second):
        self._end = address, port
        self._family = socket.AF_INET6 if ':' in address else socket.AF_INET
        self._period = 1 / per_second
        self._epoll = select.epoll()
        self._all = {}  # file descriptor → Connection
        self._waiting = collections.deque()  # for their turn
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
            self._look_at_time()
            self._begin_opening()
            self._ask()
            self._finish_command()

    def _read_input(self):
        more = os.read(0, 65536)
        if not more:
            return False
        self._input += more
        line, found, rest = self._input.partition(b'\n')
        if found:
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
            self._say()
        elif self._command == 'close':
            self._close(lambda one: value in (None, one.member))
        elif self._command == 'close_ports':
            ports = set(value)
            self._close(lambda one: one.port in ports)

    def _close(self, is_wanted):
        found = [one for one in self._all.values() if is_wanted(one)]
        for one in found:
            _read_all(one.socket)
            self._forget(one)
        self._say(closed=len(found), broken=self._take_broken())

    def _finish_command(self):
        if (self._command == 'open' and not self._to_open
                and not self._opening and not any(
                    one.member is None for one in self._all.values())):
            failed, self._failed = self._failed, []
            self._say(ports=self._ports, failed=failed,
                      living=len(self._all))
        elif self._command == 'round' and self._missing == 0:
            self._say(living=len(self._all), broken=self._take_broken())

    def _say(self, **answer):
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
            one = Connection(opened)
            one.asked = time.monotonic()
            status = opened.connect_ex(self._end)
            if status not in (0, errno.EINPROGRESS):
                opened.close()
                self._failed.append(os.strerror(status))
                continue
            self._opening[opened.fileno()] = one
            self._epoll.register(opened.fileno(), select.EPOLLOUT)

    def _finish_opening(self, descriptor):
        one = self._opening.pop(descriptor)
        status = one.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            self._fail(one, os.strerror(status))
            return
        one.port = one.socket.getsockname()[1]
        self._ports.append(one.port)
        one.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._epoll.modify(descriptor, select.EPOLLIN)
        self._all[descriptor] = one
        self._send(one)

    def _fail(self, one, why):
        self._failed.append(why)
        self._epoll.unregister(one.socket.fileno())
        one.socket.close()

    def _look_at_time(self):
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
        # What was missed while the processor was elsewhere is not caught up.
        self._next = max(self._next, now - 0.05)
        while (self._waiting and not self._rests and self._next <= now
               and len(self._asked) < ASKED_MAX):
            one = self._waiting.popleft()
            if one.asked is None and one.socket.fileno() in self._all:
                self._next += self._period
                self._send(one)

    def _send(self, one):
        one.asked = time.monotonic()
        one.asked_in = self._round
        one.received = b''
        self._asked[one.socket.fileno()] = one
        try:
            one.socket.send(REQUEST)
        except OSError as error:
            self._break(one, error.strerror)

    def _receive(self, one):
        try:
            more = one.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(one, error.strerror)
            return
        if not more:
            self._break(one, 'closed by the server')
            return
        one.received += more
        body = answer_of(one.received)
        if body is None:
            return
        one.member = body
        one.asked = None
        del self._asked[one.socket.fileno()]
        if one.asked_in == self._round != one.done_in:
            one.done_in = self._round
            self._missing -= 1
        self._waiting.append(one)

    def _break(self, one, why):
        if one.member is None:
            self._failed.append(why)
        else:
            self._broken.append(
                {'port': one.port, 'member': one.member, 'why': why})
        if one.done_in != self._round:
            self._missing -= 1
        self._forget(one)

    def _forget(self, one):
        descriptor = one.socket.fileno()
        del self._all[descriptor]
        self._asked.pop(descriptor, None)
        self._epoll.unregister(descriptor)
        one.socket.close()


def main():
    address, port, per_second = sys.argv[1:]
    print(json.dumps({}), flush=True)
    Client(address, int(port), float(per_second)).run()


if __name__ == '__main__':
    main()
