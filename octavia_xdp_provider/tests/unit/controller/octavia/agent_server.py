# SPDX-License-Identifier: Apache-2.0
"""A stand-in for octavia-driver-agent's Unix sockets."""

import json
import os
import socketserver

import fixtures

from octavia_xdp_provider.tests.unit.controller.octavia import serving


def answer(sock, data):
    """Send an answer, prefixed by its length."""
    payload = json.dumps(data).encode()
    sock.sendall(b'%d\n%b' % (len(payload), payload))


def receive(sock):
    """Read and return a message as octavia-driver-agent does."""
    digits = b''
    while (char := sock.recv(1)) != b'\n':
        digits += char
    payload = b''
    while len(payload) < int(digits):
        payload += sock.recv(int(digits) - len(payload))
    return json.loads(payload)


class DriverAgent(fixtures.Fixture):
    """Calls ``handle(kind, message, sock)`` for each connection.

    ``kind`` is status, stats or get. It returns the answer, or None to send
    none. ``messages``: (kind, message) in order of arrival.
    """

    def __init__(self, handle):
        self.handle = handle
        self.messages = []

    def _setUp(self):
        directory = self.useFixture(fixtures.TempDir()).path
        self.paths = {}
        for kind in ('status', 'stats', 'get'):
            self.paths[kind] = os.path.join(directory, kind)
            self._serve(kind, self.paths[kind])

    def configuration(self):
        return '[controller]\n' + ''.join(
            f'{kind}_socket = {path}\npreloaded_{kind}_socket =\n'
            for kind, path in self.paths.items())

    def of(self, kind):
        """Return the messages of a kind so far."""
        return [message for message_kind, message in self.messages
                if message_kind == kind]

    def _serve(self, kind, path):
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                message = receive(self.request)
                outer.messages.append((kind, message))
                reply = outer.handle(kind, message, self.request)
                if reply is not None:
                    answer(self.request, reply)

        serving.start(self, socketserver.ThreadingUnixStreamServer(
            path, Handler))
