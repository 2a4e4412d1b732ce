# SPDX-License-Identifier: Apache-2.0
"""Octavia as far as a controller meets it, for thousands of load balancers.

It is no Octavia: no Keystone, no database, no process for each message.
It answers the requests of controller/octavia/api.py over HTTP and takes
messages on octavia-driver-agent's sockets, and so costs next to nothing
beside the controller that is measured. Documents are not sent: what
controllers compare whole is not part of what it is used for.
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
    """``objects``: (plural, id) of all below it. ``active``: set while
    nothing is pending."""

    status: str
    objects: list
    updated_at: str | None = None
    since: float = 0.0
    active: threading.Event = dataclasses.field(
        default_factory=threading.Event)


class Octavia:
    """What would be Octavia's database."""

    def __init__(self):
        self._lock = threading.Lock()
        self._balancers = {}
        self.spans = []  # seconds from pending to ACTIVE
        self.messages = 0

    def begin(self, key, status, objects=()):
        """A change is committed: a load balancer is pending."""
        with self._lock:
            found = self._balancers.get(key)
            if found is None:
                found = self._balancers[key] = Balancer(status, list(objects))
            found.status = status
            found.updated_at = _now()
            found.since = time.monotonic()
            found.active.clear()
            return found

    def lock(self, key):
        """A transaction begins, if nothing is under way; as Octavia's, it
        keeps others from changing the load balancer."""
        with self._lock:
            found = self._balancers[key]
            if not found.active.is_set():
                return False
            found.active.clear()
            return True

    def wait(self, key, timeout):
        """Until nothing is pending; whether that is so."""
        with self._lock:
            found = self._balancers[key]
        return found.active.wait(timeout)

    def take(self, message):
        """A message of statuses."""
        with self._lock:
            self.messages += 1
            for record in message.get('loadbalancers', ()):
                found = self._balancers.get(record['id'])
                if found is None:
                    continue
                found.updated_at = _now()
                if record.get('provisioning_status') == ACTIVE:
                    if found.status != ACTIVE:
                        self.spans.append(time.monotonic() - found.since)
                    found.status = ACTIVE
                    found.active.set()

    def row(self, key):
        with self._lock:
            found = self._balancers.get(key)
            return found and _row(key, found)

    def objects(self, key):
        with self._lock:
            found = self._balancers.get(key)
            return found and (found.status, list(found.objects))

    def page(self, marker, limit):
        """Rows after a marker, in the order of their creation."""
        with self._lock:
            keys = list(self._balancers)
            first = keys.index(marker) + 1 if marker else 0
            return [_row(key, self._balancers[key])
                    for key in keys[first:first + limit]]


def _row(key, found):
    return {'id': key, 'provider': 'xdp', 'operating_status': 'ONLINE',
            'provisioning_status': found.status,
            'updated_at': found.updated_at}


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime(
        '%Y-%m-%dT%H:%M:%S')


class _Handler(http.server.BaseHTTPRequestHandler):
    """Octavia's API, for octavia_xdp_provider.controller.octavia.api."""

    protocol_version = 'HTTP/1.1'
    # The answer's header and body are two writes.
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
        """Nothing: there are many."""

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
    """Serve where this thread's sockets are.

    :param sockets: paths by kind: status, stats and get, and the same with
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
            return  # it was closed
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
