# SPDX-License-Identifier: Apache-2.0
"""The health checker and members that insist on the PROXY protocol.

A member is a HAProxy, whose parser of the protocol is not ours: it answers
200 only if it has read a header.
"""

import json
import pathlib
import socket
import subprocess

import fixtures

from lab import paths
from octavia_xdp_provider.health import checks
from octavia_xdp_provider.health import queue_directory
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.proxy.health import members
from octavia_xdp_provider.tests.functional.support import bundles
from octavia_xdp_provider.tests.functional.support import haproxy
from octavia_xdp_provider.tests.functional.support import haproxy_case
from octavia_xdp_provider.tests.support import proxied as documents

_FRONTEND = '''\
defaults
  mode http
  timeout client 20s
  timeout http-request 20s
frontend plain
  bind fd@{plain} accept-proxy
  http-request return status 200 if {{ fc_rcvd_proxy }}
  http-request return status 500
frontend tls
  bind fd@{tls} accept-proxy ssl crt {folder}/member.pem
  http-request return status 200 if {{ fc_rcvd_proxy }}
  http-request return status 500
'''
KINDS = {'HTTP': 'plain', 'HTTPS': 'tls', 'TLS-HELLO': 'tls', 'TCP': 'plain'}


class TestProxyProtocolChecks(haproxy_case.Requests):

    program = haproxy.SYSTEM

    def setUp(self):
        super().setUp()
        if not paths.HEALTH_CHECKER.exists():
            self.skipTest(f'{paths.HEALTH_CHECKER} is not built')
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.folder / 'member.pem').write_text(bundles.make('member'))
        self.start_member()

    def start_member(self):
        sockets = {name: self.listen() for name in ('plain', 'tls')}
        self.ports = {name: listening.getsockname()[1]
                      for name, listening in sockets.items()}
        numbers = {name: listening.fileno()
                   for name, listening in sockets.items()}
        configuration = self.folder / 'member.cfg'
        configuration.write_text(_FRONTEND.format(folder=self.folder,
                                                  **numbers))
        self.run_in_background([self.program, '-db', '-f', configuration],
                               pass_fds=list(numbers.values()))

    def listen(self):
        listening = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listening.close)
        return listening

    def run_in_background(self, words, **options):
        process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def states(self, protocol):
        """Return the state of a member for each type of monitor, once each
        is known."""
        wanted, keys = [], {}
        for kind, port in KINDS.items():
            document = documents.web(members={kind: documents.member(
                '127.0.0.1', protocol_port=self.ports[port])})
            document['pools'][haproxy_case.WEBS].update(
                protocol=protocol,
                healthmonitor=documents.monitor(type=kind, timeout=20))
            plan = members.plan(document, checks.UNKEYED)
            wanted += plan.file['checks']
            keys[plan.monitored[documents.uuid_of(kind)]] = kind
        folder = self.folder / protocol
        (folder / 'queue').mkdir(parents=True)
        (folder / 'checks.json').write_text(json.dumps(
            {'version': 1, 'checks': wanted}))
        self.run_in_background([
            paths.HEALTH_CHECKER, 'run', '--checks', folder / 'checks.json',
            '--queue', folder / 'queue', '--socket', folder / 'hc.sock'])
        queue = queue_directory.QueueDirectory(folder / 'queue',
                                               folder / 'rejected')
        found = {}

        def all_known():
            for path in queue.pending():
                for record in queue.read(path).records:
                    found[keys[record.key]] = record.state
            return found.keys() == KINDS.keys()

        self.wait('states', all_known)
        return found

    def test_members_of_proxy_pools_get_the_header_that_they_want(self):
        up = dict.fromkeys(KINDS, queue_file.State.UP)
        self.assertEqual(up, self.states('PROXY'))
        self.assertEqual(up, self.states('PROXYV2'))

    def test_members_get_no_header_from_other_pools(self):
        down = dict.fromkeys(KINDS, queue_file.State.DOWN)
        # The connection alone is the result.
        self.assertEqual({**down, 'TCP': queue_file.State.UP},
                         self.states('HTTP'))
