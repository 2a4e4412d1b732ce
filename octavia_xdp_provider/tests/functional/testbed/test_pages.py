# SPDX-License-Identifier: Apache-2.0
"""The pages of the command "serve", gunicorn with its processes, behind a real
nginx, which speaks TLS and knows users."""

import pathlib
import re
import socket
import stat

import fixtures
import requests

from octavia_xdp_provider.tests.functional.testbed import command
from octavia_xdp_provider.tests.functional.testbed import https
from octavia_xdp_provider.tests.functional.testbed import pages
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.testbed import samples

WAIT_S = 120
# Without what boots: servers need an interface of the host.
TEXT = samples.TEXT[:samples.TEXT.index('kernels:')]


class PagesCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.bed = command.Command(self.folder / 'bed', TEXT)


class TestPages(waiting.Waiting, PagesCase):

    SOON, LOOK = WAIT_S, 0.1

    def setUp(self):
        super().setUp()
        self.certificate = https.Certificate(self)
        self.inner = pages.serve(self, self.bed)
        self.url = https.proxy(self, self.inner, self.certificate,
                               self.folder / 'nginx')

    def session(self, name=None):
        """Return the session of a user's browser, or of an unknown one."""
        session = requests.Session()
        self.addCleanup(session.close)
        session.trust_env = False
        session.verify = self.certificate.authority
        session.headers['Referer'] = f'{self.url}/'
        if name is not None:
            session.auth = name, https.PASSWORD
        return session

    def token(self, session):
        page = session.get(self.url, timeout=WAIT_S).text
        return re.search('name="csrf_token"[^>]*value="([^"]+)"', page)[1]

    def post(self, session, path, headers=None, **data):
        return session.post(self.url + path, data={
            'csrf_token': self.token(session), **data}, headers=headers,
            timeout=WAIT_S)

    def reserve(self, session, *machines, headers=None):
        return self.post(session, '/reserve', headers, machines=machines,
                         purpose='rates', hours='8')

    def test_from_a_lease_to_a_sync_that_was_asked_for(self):
        alice = self.session('alice')
        # Through whichever of the processes: their key is one.
        for _ in range(8):
            self.assertIn('Who has what', alice.get(self.url).text)
        self.assertIn('Lease 1 is yours', self.reserve(alice, 'lb1').text)
        bob = self.session('bob')
        refused = self.reserve(bob, 'lb1')
        self.assertEqual(409, refused.status_code)
        self.assertIn('lb1 is taken by alice until', refused.text)
        self.assertIn('vrf bed1', bob.get(f'{self.url}/diff').text)
        self.assertIn('Started', self.post(alice, '/sync/start').text)
        self.wait('end of the sync', lambda: 'applied: commit' in alice.get(
            f'{self.url}/sync').text)
        self.assertIn('vrf bed1', (self.bed.switches / 'leaf1/interfaces'
                                   ).read_text())
        self.assertIn('Nothing', bob.get(f'{self.url}/diff').text)
        self.assertIn('has ended', self.post(
            alice, '/leases/1/release').text)
        self.assertIn('release', bob.get(f'{self.url}/log').text)

    def test_the_name_is_what_the_proxy_says(self):
        forged = {'X-Remote-User': 'bob'}
        self.assertEqual(401, self.session().get(
            self.url, headers=forged, timeout=WAIT_S).status_code)
        alice = self.session('alice')
        self.assertIn('Lease 1 is yours',
                      self.reserve(alice, 'lb1', headers=forged).text)
        self.assertIn('alice', self.bed.run('list')[1])
        self.assertNotIn('bob', self.bed.run('list')[1])
        # Without a proxy nobody is known.
        self.assertEqual(401, requests.get(self.inner,
                                           timeout=WAIT_S).status_code)


@form.in_long_form
class TestSocket(PagesCase):

    def test_a_socket_is_opened_by_its_owner_alone(self):
        path = self.folder / 'pages'
        self.assertEqual(f'unix:{path}', pages.serve(
            self, self.bed, '--listen', f'unix:{path}'))
        self.assertEqual(0o700, stat.S_IMODE(path.stat().st_mode))
        database = self.bed.folder / 'leases.sqlite'
        self.assertEqual(0o600, stat.S_IMODE(database.stat().st_mode))
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(path))
            asking.sendall(b'GET / HTTP/1.0\r\nX-Remote-User: alice\r\n\r\n')
            with asking.makefile() as answer:
                self.assertIn(' 200 ', answer.readline())
