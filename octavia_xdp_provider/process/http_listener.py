# SPDX-License-Identifier: Apache-2.0
"""Answers GET /metrics (Prometheus) and GET /healthcheck.

Requests cannot change anything, and each connection has its own thread and
time limit.
"""

from collections.abc import Callable
from collections.abc import Iterable
import ipaddress
import json
import socket
import socketserver
import threading
from typing import Any
from wsgiref import simple_server

import prometheus_client

from octavia_xdp_provider.process import health as health_module

# Seconds that a connection may be idle.
TIMEOUT_S = 10
# Concurrent connections; further ones are refused.
CONNECTIONS_MAX = 16

_Application = Callable[[dict[str, Any], Callable[..., Any]],
                        Iterable[bytes]]


def application(registry: prometheus_client.CollectorRegistry,
                health: health_module.Health | None = None) -> _Application:
    """Return the WSGI application."""
    metrics: _Application = prometheus_client.make_wsgi_app(registry)

    def answer(environment: dict[str, Any],
               start: Callable[..., Any]) -> Iterable[bytes]:
        path = environment.get('PATH_INFO', '')
        if path == '/metrics':
            return metrics(environment, start)
        if path == '/healthcheck' and health is not None:
            return _healthcheck(health, environment, start)
        return _text(start, '404 Not Found', 'there is /metrics'
                     + (' and /healthcheck' if health else '') + '\n')
    return answer


def _healthcheck(health: health_module.Health, environment: dict[str, Any],
                 start: Callable[..., Any]) -> Iterable[bytes]:
    if environment['REQUEST_METHOD'] not in ('GET', 'HEAD'):
        return _text(start, '405 Method Not Allowed', 'use GET or HEAD\n')
    results = health.results()
    is_well = not any(results.values())
    text = json.dumps({
        'available': is_well,
        'checks': {name: problem or 'OK'
                   for name, problem in results.items()}}, indent=1)
    answer = _text(start, '200 OK' if is_well else '503 Service Unavailable',
                   f'{text}\n', 'application/json')
    return answer if environment['REQUEST_METHOD'] == 'GET' else ()


def _text(start: Callable[..., Any], status: str, text: str,
          content_type: str = 'text/plain') -> Iterable[bytes]:
    data = text.encode()
    start(status, [('Content-Type', content_type),
                   ('Content-Length', str(len(data)))])
    return [data]


class _Handler(simple_server.WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: metrics are fetched every few seconds."""

    def address_string(self) -> str:
        # The inherited method would ask the resolver.
        return str(self.client_address[0])


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int],
                 refused: Callable[[], Any]) -> None:
        self._room = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._refused = refused
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # WSGIServer's own method would ask the resolver for the host's name.
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self._refused()
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any
                               ) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the client has gone, or its request is malformed."""


class Listener:
    """Serves from ``start`` to ``stop``.

    :param address: (address, port) to listen at.
    :param refused: called for each connection beyond CONNECTIONS_MAX.
    """

    def __init__(self, address: tuple[str, int], answer: _Application,
                 refused: Callable[[], Any] = lambda: None) -> None:
        self._address = address
        self._answer = answer
        self._refused = refused
        self._server: _Server | None = None

    @property
    def port(self) -> int:
        """The port that it listens on, after ``start``."""
        assert self._server
        return int(self._server.server_port)

    def start(self) -> None:
        """:raises OSError: it cannot listen there."""
        class Server(_Server):
            address_family = (
                socket.AF_INET6 if ipaddress.ip_address(
                    self._address[0]).version == 6 else socket.AF_INET)

        self._server = Server(self._address, self._refused)
        self._server.set_app(self._answer)
        threading.Thread(target=self._server.serve_forever, name='http',
                         daemon=True).start()

    def stop(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
