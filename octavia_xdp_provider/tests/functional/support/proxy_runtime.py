# SPDX-License-Identifier: Apache-2.0
"""HAProxy, the runtime of a proxy node's agent, and a health checker that
says what the test wants."""

import contextlib
import itertools
import json
import pathlib
import socket
import socketserver
import threading
import urllib.request

import fixtures

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.proxy.runtime import service
from octavia_xdp_provider.tests.functional.support import haproxy
from octavia_xdp_provider.tests.functional.support import haproxy_case
from octavia_xdp_provider.tests.functional.support import web_members
from octavia_xdp_provider.tests.support import proxied as documents

WEB, WEBS = haproxy_case.WEB, haproxy_case.WEBS
MONITOR = {
    'id': documents.uuid_of('monitor'), 'admin_state_up': True, 'type': 'TCP',
    'delay': 5, 'timeout': 5, 'max_retries': 3, 'max_retries_down': 3,
    'http_method': 'GET', 'url_path': '/', 'expected_codes': '200',
    'http_version': 1.0, 'domain_name': None}


class RuntimeCase(haproxy_case.Requests):
    """A node with load balancers, each with a HAProxy that a test reloads."""

    def setUp(self):
        super().setUp()
        self.run_directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        (self.run_directory / 'runtime').mkdir()
        self.documents = {}
        self.runtime = None
        self.sequence = itertools.count(1)
        self.wakeups = threading.Semaphore(0)
        self.start_runtime()

    def start_runtime(self):
        self.runtime = service.Runtime(str(self.run_directory),
                                       self.wakeups.release)
        self.runtime.start()
        self.addCleanup(self.runtime.stop)
        self.runtime.want(self.documents)

    def restart_runtime(self):
        self.runtime.stop()
        self.start_runtime()

    def serve(self, document, down=()):
        """Return the started HAProxy of a document, which is followed."""
        proxied.check(document)
        key = document['id']
        folder = self.run_directory / 'runtime' / key
        folder.mkdir()
        proxy = haproxy.Proxy(self.program, folder, document, down=down)
        self.want(document)
        proxy.__enter__()
        self.addCleanup(proxy.__exit__, None, None, None)
        self.wait('HAProxy', lambda: proxy.reloads() == 0)
        self.wait('first look', lambda: key in self.runtime.counters())
        return proxy

    def want(self, document):
        self.documents = {**self.documents, document['id']: document}
        self.runtime.want(self.documents)

    def monitored(self, *names, **more):
        """Return a document with these members."""
        document = documents.web(members=self.members(*names), **more)
        document['pools'][WEBS]['healthmonitor'] = MONITOR
        return document

    def keys(self, document):
        """Return key of the check by the port that it probes."""
        path = self.run_directory / 'health/checks' / f'{document["id"]}.json'
        return {check['port']: int(check['key'], 16)
                for check in json.loads(path.read_text())['checks']}

    def result(self, document, name, is_up, verified=True):
        """Write a result as the health checker does."""
        member = document['pools'][WEBS]['members'][documents.uuid_of(name)]
        number = next(self.sequence)
        state = queue_file.State.UP if is_up else queue_file.State.DOWN
        self.record = queue_file.Record(
            self.keys(document)[member['protocol_port']], number, 0, state, 0,
            queue_file.FLAG_VERIFIED if verified else 0, 0)
        self.put(queue_file.delta_name(1, number), queue_file.encode(
            queue_file.Kind.DELTA, 1, number, number, [self.record]))

    def snapshot(self):
        """Write a snapshot with the last result, as the checker soon does."""
        self.put('snapshot', queue_file.encode(
            queue_file.Kind.SNAPSHOT, 1, 0, self.record.sequence,
            [self.record]))

    def put(self, name, content):
        queue = self.run_directory / 'health/queue'
        (queue / f'.tmp-{name}').write_bytes(content)
        (queue / f'.tmp-{name}').rename(queue / name)

    def answer_names(self, proxy, count=4):
        """Return the names of the members that answer so many requests."""
        url = f'http://127.0.0.1:{proxy.ports[WEB]}/'
        names = set()
        for _ in range(count):
            with urllib.request.urlopen(url, timeout=20) as answer:
                names.add(json.load(answer)['member'])
        return names

    def counters(self, document):
        return self.runtime.counters().get(document['id'], {}).get(WEB)


@contextlib.contextmanager
def echo_connection(proxy):
    """A connection of a client by HAProxy to a member that echoes."""
    with socket.create_connection(('127.0.0.1', proxy.ports[WEB]), 20
                                  ) as client:
        yield client


def echo(client, data):
    """Send data and read it back."""
    client.sendall(data)
    read = b''
    while len(read) < len(data):
        part = client.recv(65536)
        if not part:
            raise EOFError(f'{len(read)} bytes came back')
        read += part


def start_echo(case):
    """Start a member that echoes; return its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            while data := self.request.recv(65536):
                self.request.sendall(data)

    server = socketserver.ThreadingTCPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    web_members.serve(case, server, 'echo')
    return server.server_address[1]
