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

import asyncio
import collections
import contextlib
import json
import os
import sys

REQUEST = b'GET / HTTP/1.1\r\nHost: vip\r\n\r\n'
# Concurrent ones; others wait.
OPENING_MAX = 200
ASKED_MAX = 2000
# TCP retransmits lost packets after 0.2 s, 0.4 s and so on.
SILENCE_S = 60.0
OPEN_S = 60.0


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


class Connection(asyncio.Protocol):
    """:ivar member: which answered last; None: none has.
    :ivar asked: time of the pending request, or None.
    :ivar asked_in: round of the last request, as done_in of the last answer.
    """

    def __init__(self, client):
        self.client = client
        self.member = self.asked = None
        self.received = b''
        self.asked_in = self.done_in = 0

    def connection_made(self, transport):
        self.transport = transport
        self.port = transport.get_extra_info('sockname')[1]
        self.client.add(self)

    def data_received(self, data):
        self.received += data
        body = answer_of(self.received)
        if body is not None:
            self.client.take_answer(self, body)

    def connection_lost(self, exc):
        self.client.lose(self, exc.strerror if exc else 'closed by the server')

    def close(self):
        """Read all bytes before: with unread ones, close() would send a single
        RST. If that is lost, server and flow tables keep the connection for
        hours."""
        with contextlib.suppress(OSError):
            while os.read(self.transport.get_extra_info('socket').fileno(),
                          65536):
                pass
        self.transport.close()


class Client:
    """The commands, and the requests meanwhile."""

    def __init__(self, address, port, per_second):
        self._end = address, port
        self._period = 1 / per_second
        self._all = set()
        self._waiting = collections.deque()  # Connections awaiting their turn
        self._asked = {}  # Connection → None, oldest first
        self._unanswered = 0  # connections that no member has answered yet
        self._ports, self._failed, self._broken = [], [], []
        self._round = 0
        self._missing = 0  # connections without an answer in this round
        self._rests = False
        self._changed = asyncio.Event()

    async def run(self):
        self._loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        asking = asyncio.create_task(self._ask_in_turn())
        print(json.dumps({}), flush=True)
        async for line in reader:
            (command, value), = json.loads(line).items()
            answer = await getattr(self, f'do_{command}')(value)
            print(json.dumps(answer), flush=True)
        asking.cancel()

    async def do_open(self, count):
        opening = asyncio.Semaphore(OPENING_MAX)

        async def open_one():
            async with opening:
                try:
                    await asyncio.wait_for(self._loop.create_connection(
                        lambda: Connection(self), *self._end), OPEN_S)
                except TimeoutError:
                    self._failed.append('no answer to SYN')
                except OSError as error:
                    self._failed.append(os.strerror(error.errno))
        self._ports = []
        await asyncio.gather(*(open_one() for _ in range(count)))
        await self._until(lambda: not self._unanswered)
        failed, self._failed = self._failed, []
        return {'ports': self._ports, 'failed': failed,
                'living': len(self._all)}

    async def do_round(self, _):
        self._rests = False
        self._round += 1
        self._missing = len(self._all)
        await self._until(lambda: not self._missing)
        return {'living': len(self._all), 'broken': self._take_broken()}

    async def do_rest(self, _):
        self._rests = True
        return {}

    async def do_close(self, member):
        return self._close_those(
            lambda connection: member in (None, connection.member))

    async def do_close_ports(self, ports):
        return self._close_those(lambda connection: connection.port in ports)

    def _close_those(self, is_wanted):
        wanted = [connection for connection in self._all
                  if is_wanted(connection)]
        for connection in wanted:
            self._all.discard(connection)
            self._asked.pop(connection, None)
            connection.close()
        return {'closed': len(wanted), 'broken': self._take_broken()}

    def _take_broken(self):
        broken, self._broken = self._broken, []
        return broken

    async def _until(self, condition):
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def _ask_in_turn(self):
        turn = self._loop.time()
        while True:
            await asyncio.sleep(0.005)
            now = self._loop.time()
            # Do not catch up on time lost while other processes ran.
            turn = max(turn, now - 0.05)
            while (self._waiting and not self._rests and turn <= now
                   and len(self._asked) < ASKED_MAX):
                connection = self._waiting.popleft()
                if connection in self._all and connection.asked is None:
                    turn += self._period
                    self._send(connection)
            for connection in list(self._asked)[:1]:
                if now - connection.asked > SILENCE_S:
                    self.lose(connection, f'no answer for {SILENCE_S:.0f} s')

    # Called by connections.

    def add(self, connection):
        self._all.add(connection)
        self._unanswered += 1
        self._ports.append(connection.port)
        self._send(connection)

    def _send(self, connection):
        connection.asked = self._loop.time()
        connection.asked_in = self._round
        connection.received = b''
        self._asked[connection] = None
        connection.transport.write(REQUEST)

    def take_answer(self, connection, member):
        if connection not in self._all:
            return
        self._unanswered -= connection.member is None
        connection.member = member
        connection.asked = None
        del self._asked[connection]
        if connection.asked_in == self._round != connection.done_in:
            connection.done_in = self._round
            self._missing -= 1
        self._waiting.append(connection)
        self._changed.set()

    def lose(self, connection, why):
        if connection not in self._all:
            return  # It was closed here.
        self._all.discard(connection)
        self._asked.pop(connection, None)
        connection.transport.abort()
        if connection.member is None:
            self._unanswered -= 1
            self._failed.append(why)
        else:
            self._broken.append({'port': connection.port,
                                 'member': connection.member, 'why': why})
        if connection.done_in != self._round:
            self._missing -= 1
        self._changed.set()


def main():
    address, port, per_second = sys.argv[1:]
    asyncio.run(Client(address, int(port), float(per_second)).run())


if __name__ == '__main__':
    main()
