# SPDX-License-Identifier: Apache-2.0
"""Relays lines from standard input to TRex, and answers to standard output.

Runs on the host of TRex with Python's standard library only. Speaks ZMTP 3.0
(https://rfc.zeromq.org/spec/23/), as a REQ socket without security.

    python3 trex_relay.py ADDRESS PORT
"""

import json
import socket
import struct
import sys

GREETING = (b'\xff' + bytes(8) + b'\x7f' + b'\x03\x00' +
            b'NULL'.ljust(20, b'\0') + bytes(32))
MORE, LONG, COMMAND = 1, 2, 4
MESSAGE_MAX = 1 << 28
SECONDS = 30


class ProtocolError(Exception):
    """The peer violates ZMTP 3."""


def frame(body, flags=0):
    """Return a frame: flags, length, body."""
    if len(body) > 255:
        return struct.pack('>BQ', flags | LONG, len(body)) + body
    return struct.pack('>BB', flags, len(body)) + body


def ready(kind):
    """Return the command that ends a handshake, with a type of socket."""
    name, value = b'Socket-Type', kind
    metadata = (bytes([len(name)]) + name + struct.pack('>I', len(value)) +
                value)
    return frame(b'\x05READY' + metadata, COMMAND)


class Peer:
    """One end of a connection.

    :param kind: its type of socket, such as b'REQ'.
    """

    def __init__(self, connection, kind):
        self._connection = connection
        connection.sendall(GREETING)
        greeting = self._bytes(64)
        if greeting[0] != 0xff or greeting[9] != 0x7f or greeting[10] < 3:
            raise ProtocolError('its greeting is not of ZMTP 3')
        if greeting[12:32].rstrip(b'\0') != b'NULL':
            raise ProtocolError('it wants to authenticate')
        connection.sendall(ready(kind))
        flags, body = self._frame()
        if not flags & COMMAND or not body.startswith(b'\x05READY'):
            raise ProtocolError(f'it ends the handshake: {body[:80]!r}')

    def _bytes(self, length):
        data = b''
        while len(data) < length:
            part = self._connection.recv(min(length - len(data), 1 << 16))
            if not part:
                raise ProtocolError('it closed the connection')
            data += part
        return data

    def _frame(self):
        flags, = self._bytes(1)
        if flags & LONG:
            length, = struct.unpack('>Q', self._bytes(8))
        else:
            length, = self._bytes(1)
        if length > MESSAGE_MAX:
            raise ProtocolError(f'a frame of {length} bytes')
        return flags, self._bytes(length)

    def send(self, body):
        """Send a message after the empty frame of REQ and REP."""
        self._connection.sendall(frame(b'', MORE) + frame(body))

    def receive(self):
        """Return the last frame of the next message; commands are skipped."""
        while True:
            flags, body = self._frame()
            if not flags & (COMMAND | MORE):
                return body


def main(arguments):
    """Relay until standard input ends."""
    address, port = arguments
    try:
        with socket.create_connection((address, int(port)), SECONDS) as opened:
            peer = Peer(opened, b'REQ')
            print(json.dumps({'connected': True}), flush=True)
            for line in sys.stdin:
                peer.send(line.strip().encode())
                # Reformat to a single line.
                print(json.dumps(json.loads(peer.receive())), flush=True)
    except (OSError, ProtocolError, ValueError) as error:
        print(json.dumps({'failed': f'{address}:{port}: {error}'}), flush=True)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
