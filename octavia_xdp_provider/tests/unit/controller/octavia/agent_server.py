# SPDX-License-Identifier: Apache-2.0
"""Unix sockets that answer as octavia-driver-agent does, or do not."""

import json
import os
import socketserver

import fixtures

from octavia_xdp_provider.tests.unit.controller.octavia import serving


def answer(sock, data):
    """An answer with its length before."""
    payload = json.dumps(data).encode()
    sock.sendall(b'%d\n%b' % (len(payload), payload))


def receive(sock):
    """A message, read as octavia-driver-agent reads it."""
    digits = b''
    while (char := sock.recv(1)) != b'\n':
        digits += char
    payload = b''
    while len(payload) < int(digits):
        payload += sock.recv(int(digits) - len(payload))
    return json.loads(payload)


class DriverAgent(fixtures.Fixture):
    """``handle(kind, message, sock)`` is called for each connection.

    ``kind`` is status, stats or get. What it returns is the answer, None
    for none. ``messages``: (kind, message) as they came.
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
        """Messages of a kind so far."""
        return [message for found, message in self.messages if found == kind]

    def _serve(self, kind, path):
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                message = receive(self.request)
                outer.messages.append((kind, message))
                found = outer.handle(kind, message, self.request)
                if found is not None:
                    answer(self.request, found)

        serving.start(self, socketserver.ThreadingUnixStreamServer(
            path, Handler))
