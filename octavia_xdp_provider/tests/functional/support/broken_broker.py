# SPDX-License-Identifier: Apache-2.0
"""A TCP server in front of a broker that fails as networks and hosts do."""

import contextlib
import selectors
import socket
import threading

import fixtures


class Broker(fixtures.Fixture):
    """Forwards connections to a broker, until it is changed.

    :param target: host and port of the broker.
    """

    def __init__(self, target):
        self._target = target
        self._passes = threading.Event()
        self._passes.set()
        self._lock = threading.Lock()
        self._sockets = []
        self._ended = False

    def _setUp(self):
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        self.addCleanup(self._end)

    def _end(self):
        self._ended = True
        self._passes.set()
        self._listener.close()
        self.cut()

    def hang(self):
        """Accept connections, and pass nothing on, of old ones as well."""
        self._passes.clear()

    def go_on(self):
        """Pass on what comes, and what had come meanwhile."""
        self._passes.set()

    def cut(self):
        """End all connections."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for connection in sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self):
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,),
                             daemon=True).start()

    def _forward(self, client):
        with self._lock:
            self._sockets.append(client)
        self._passes.wait()
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        with self._lock:
            self._sockets.append(server)
        # Sockets that cut() has closed are no longer valid.
        with (selectors.DefaultSelector() as selector,
              contextlib.suppress(OSError, ValueError)):
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while self._pass_one(selector):
                pass
        for connection in (client, server):
            with contextlib.suppress(OSError):
                connection.close()

    def _pass_one(self, selector):
        for key, _ in selector.select(1):
            self._passes.wait()
            data = key.fileobj.recv(65536)
            if not data:
                return False
            key.data.sendall(data)
        return not self._ended
