# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Octavia, for controllers with thousands of load balancers.

It has no Keystone, no database and no process for each message. It answers the
requests of controller/octavia/api.py over HTTP and takes messages on
octavia-driver-agent's sockets, which costs next to nothing beside the measured
controller. It lists statuses only, not the objects that controllers compare.
"""

import contextlib
import dataclasses
import datetime
import http.server
import json
import os
import socket
import threading
import time
import urllib.parse

ACTIVE = 'ACTIVE'
PORT = 9876


@dataclasses.dataclass
class Balancer:
    """``objects``: (plural, id) of its objects. ``active``: set while nothing
    is pending."""

    status: str
    objects: list
    updated_at: str | None = None
    since: float = 0.0
    active: threading.Event = dataclasses.field(
        default_factory=threading.Event)


class Octavia:
    """The stand-in for Octavia's database."""

    def __init__(self):
        self._lock = threading.Lock()
        self._balancers = {}
        self.spans = []  # seconds from pending to ACTIVE
        self.messages = 0

    def begin(self, key, status, objects=()):
        """Commit a change: the load balancer becomes pending."""
        with self._lock:
            balancer = self._balancers.get(key)
            if balancer is None:
                balancer = self._balancers[key] = Balancer(status,
                                                           list(objects))
            balancer.status = status
            balancer.updated_at = _now()
            balancer.since = time.monotonic()
            balancer.active.clear()
            return balancer

    def lock(self, key):
        """Begin a transaction unless one is under way; like Octavia's, it
        excludes other changes of the load balancer."""
        with self._lock:
            balancer = self._balancers[key]
            if not balancer.active.is_set():
                return False
            balancer.active.clear()
            return True

    def wait(self, key, timeout):
        """Wait until nothing is pending; return whether that is so."""
        with self._lock:
            balancer = self._balancers[key]
        return balancer.active.wait(timeout)

    def take(self, message):
        """Apply a message of statuses."""
        with self._lock:
            self.messages += 1
            for record in message.get('loadbalancers', ()):
                balancer = self._balancers.get(record['id'])
                if balancer is None:
                    continue
                balancer.updated_at = _now()
                if record.get('provisioning_status') == ACTIVE:
                    if balancer.status != ACTIVE:
                        self.spans.append(time.monotonic() - balancer.since)
                    balancer.status = ACTIVE
                    balancer.active.set()

    def row(self, key):
        with self._lock:
            balancer = self._balancers.get(key)
            return balancer and _row(key, balancer)

    def objects(self, key):
        with self._lock:
            balancer = self._balancers.get(key)
            return balancer and (balancer.status, list(balancer.objects))

    def page(self, marker, limit):
        """Return rows after a marker, in order of creation."""
        with self._lock:
            keys = list(self._balancers)
            first = keys.index(marker) + 1 if marker else 0
            return [_row(key, self._balancers[key])
                    for key in keys[first:first + limit]]


def _row(key, balancer):
    return {'id': key, 'provider': 'xdp', 'operating_status': 'ONLINE',
            'provisioning_status': balancer.status,
            'updated_at': balancer.updated_at}


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime(
        '%Y-%m-%dT%H:%M:%S')


class _Handler(http.server.BaseHTTPRequestHandler):
    """Octavia's API, for octavia_xdp_provider.controller.octavia.api."""

    protocol_version = 'HTTP/1.1'
    # Header and body of the answer are separate writes.
    disable_nagle_algorithm = True
    octavia = None

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip('/').split('/')[2:]
        status, body = self._answer(parts, query)
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        """Log nothing: there are too many requests."""

    def _answer(self, parts, query):
        if parts == ['loadbalancers']:
            if 'project_id' in query:
                return 200, {'loadbalancers': []}
            return 200, self._list(query)
        if parts[0] == 'loadbalancers':
            row = self.octavia.row(parts[1])
            if row is None:
                return 404, {'faultstring': f'{parts[1]} not found'}
            if parts[2:] == ['status']:
                return 200, self._tree(parts[1])
            return 200, {'loadbalancer': row}
        return 200, {parts[0]: []}

    def _list(self, query):
        limit = int(query.get('limit', 1000))
        rows = self.octavia.page(query.get('marker'), limit)
        answer = {'loadbalancers': rows}
        if len(rows) == limit:
            answer['loadbalancers_links'] = [{'rel': 'next'}]
        return answer

    def _tree(self, key):
        status, objects = self.octavia.objects(key)

        def of(plural):
            return [{'id': other, 'provisioning_status': status}
                    for name, other in objects if name == plural]
        pools = of('pools')
        for pool in pools:
            pool['members'] = of('members')
        listeners = of('listeners')
        for listener in listeners:
            listener['pools'] = pools
        return {'statuses': {'loadbalancer': {
            'id': key, 'provisioning_status': status,
            'listeners': listeners}}}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextlib.contextmanager
def serving(octavia, sockets):
    """Serve in the network namespace of this thread.

    :param sockets: paths by kind: status, stats and get, each also with
        ``preloaded_`` before it.
    """
    handler = type('Handler', (_Handler,), {'octavia': octavia})
    server = _Server(('127.0.0.1', PORT), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    listeners = []
    for kind, path in sockets.items():
        listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(str(path))
        listener.listen(64)
        listeners.append(listener)
        threading.Thread(target=_accept, args=(octavia, kind, listener),
                         daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        for listener in listeners:
            listener.close()


def _accept(octavia, kind, listener):
    while True:
        try:
            connection, _address = listener.accept()
        except OSError:
            return  # the listener was closed
        with connection, connection.makefile('rwb') as file:
            message = json.loads(file.read(int(file.readline())))
            answer = {}
            kind = kind.removeprefix('preloaded_')
            if kind != 'get':
                if kind == 'status':
                    octavia.take(message)
                answer = {'status_code': 200}
            data = json.dumps(answer).encode()
            file.write(b'%d\n%b' % (len(data), data))
