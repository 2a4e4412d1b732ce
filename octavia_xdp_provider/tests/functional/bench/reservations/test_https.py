# SPDX-License-Identifier: Apache-2.0
"""The pages by HTTPS: of gunicorn itself, and behind a real nginx."""

import contextlib
import http.client
import pathlib
import re
import socket
import stat

import fixtures
import requests
from requests import adapters

from octavia_xdp_provider.tests.functional.bench.reservations import command
from octavia_xdp_provider.tests.functional.bench.reservations import https
from octavia_xdp_provider.tests.functional.bench.reservations import pages
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench.reservations import samples

PASSWORD = 'correct horse battery'  # noqa: S105
WRONG = 'wrong password'
WAIT_S = 120
# Without what boots: servers need an interface of the host.
TEXT = samples.TEXT[:samples.TEXT.index('kernels:')]
# For an nginx that knows who they are.
_BASIC = '''\
        auth_basic beds;
        auth_basic_user_file {users};
        proxy_set_header X-Remote-User $remote_user;
'''


class _From(adapters.HTTPAdapter):
    """Requests from an address of this machine."""

    def __init__(self, address):
        self._address = address
        super().__init__()

    def init_poolmanager(self, *arguments, **more):
        super().init_poolmanager(
            *arguments, source_address=(self._address, 0), **more)


class HttpsCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.bed = command.Command(self.folder / 'bed', TEXT)
        pages.make_users(self, self.bed, PASSWORD)

    def session(self, address='127.0.0.1'):
        session = requests.Session()
        self.addCleanup(session.close)
        session.trust_env = False
        session.verify = self.certificate.authority
        session.mount('https://', _From(address))
        return session

    def token(self, answer):
        return re.search('name="csrf_token"[^>]*value="([^"]+)"',
                         answer.text)[1]

    def log_in(self, session, password=PASSWORD, **headers):
        """The answer to the form, as a browser of these pages sends it."""
        url = f'{self.url}/login'
        page = session.get(url, headers=headers, timeout=WAIT_S)
        return session.post(
            url, data={'name': 'alice', 'password': password,
                       'csrf_token': self.token(page)},
            headers={'Referer': url, **headers}, timeout=WAIT_S)

    def reserve(self, session, referrer):
        page = session.get(self.url, timeout=WAIT_S)
        return session.post(
            f'{self.url}/reserve', data={
                'csrf_token': self.token(page), 'machines': 'lb1',
                'purpose': 'rates', 'hours': '1'},
            headers={'Referer': referrer}, timeout=WAIT_S)

    def by_https_alone(self):
        """Session and answers are as those of HTTPS have to be."""
        alice = self.session()
        answer = self.log_in(alice)
        self.assertIn('Who has what', answer.text)
        self.assertEqual('max-age=31536000',
                         answer.headers['Strict-Transport-Security'])
        cookie, = alice.cookies
        # The prefix has browsers take it by HTTPS and of this host alone.
        self.assertEqual(('__Host-session', True, '/', False),
                         (cookie.name, cookie.secure, cookie.path,
                          cookie.domain_specified))
        self.assertTrue(cookie.has_nonstandard_attr('HttpOnly'))
        self.assertEqual(400, self.reserve(
            alice, 'https://elsewhere.example/').status_code)
        self.assertIn('Lease 1 is yours', self.reserve(
            alice, f'{self.url}/').text)

    def throttled(self, addresses, **headers):
        """Answers to wrong passwords, each with another forged address."""
        return [self.log_in(
            self.session(address), WRONG, **headers,
            **{'X-Forwarded-For': f'203.0.113.{number}'}).status_code
            for number, address in enumerate(addresses)]


class TestTls(HttpsCase):

    def setUp(self):
        super().setUp()
        self.certificate = https.Certificate(self)
        self.url = pages.serve(
            self, self.bed, '--certificate', self.certificate.certificate,
            '--key', self.certificate.key)

    def test_sessions_go_by_https_alone(self):
        self.assertEqual('https://', self.url[:8])
        self.by_https_alone()
        # Who does not speak TLS gets nothing of the pages.
        host, port = self.url.removeprefix('https://').split(':')
        connection = http.client.HTTPConnection(host, int(port))
        self.addCleanup(connection.close)
        connection.request('GET', '/login')
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            self.assertNotEqual(200, connection.getresponse().status)

    @form.in_long_form
    def test_the_certificate_is_the_one_that_is_given(self):
        other = self.session()
        other.verify = https.Certificate(self).authority
        self.assertRaises(requests.exceptions.SSLError, other.get,
                          f'{self.url}/login', timeout=WAIT_S)

    @form.in_long_form
    def test_without_a_proxy_nobody_says_who_sends_a_request(self):
        self.assertEqual(
            [403] * 5 + [429],
            self.throttled(['127.0.0.1'] * 6, **{'X-Remote-User': 'bob'}))


@form.in_long_form
class TestBehindProxy(HttpsCase):

    def serve(self, *options, more=''):
        self.certificate = https.Certificate(self)
        inner = pages.serve(self, self.bed, '--behind-proxy', *options)
        self.url = https.proxy(self, inner, self.certificate,
                               self.folder / 'nginx', more)

    def test_sessions_go_by_https_alone(self):
        self.serve()
        self.by_https_alone()

    def test_the_address_is_what_the_proxy_says(self):
        self.serve()
        self.assertEqual([403] * 5 + [429],
                         self.throttled(['127.0.0.1'] * 6))
        self.assertEqual([403], self.throttled(['127.0.0.2']))

    def test_the_name_is_what_the_proxy_says(self):
        users = self.folder / 'basic'
        users.write_text(f'alice:{{PLAIN}}{PASSWORD}\n')
        self.serve('--trusted-header', 'X-Remote-User',
                   more=_BASIC.format(users=users))
        session = self.session()
        forged = {'X-Remote-User': 'bob'}
        self.assertEqual(401, session.get(
            self.url, headers=forged, timeout=WAIT_S).status_code)
        session.auth = 'alice', PASSWORD
        session.headers.update(forged)
        self.assertIn('Lease 1 is yours', self.reserve(
            session, f'{self.url}/').text)
        self.assertIn('alice', self.bed.run('list')[1])
        self.assertNotIn('bob', self.bed.run('list')[1])


@form.in_long_form
class TestSocket(HttpsCase):

    def test_a_socket_is_opened_by_its_owner_alone(self):
        path = self.folder / 'pages'
        self.assertEqual(f'unix:{path}', pages.serve(
            self, self.bed, '--behind-proxy', '--listen', f'unix:{path}'))
        self.assertEqual(0o700, stat.S_IMODE(path.stat().st_mode))
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(path))
            asking.sendall(b'GET /login HTTP/1.0\r\n\r\n')
            with asking.makefile() as answer:
                self.assertIn(' 200 ', answer.readline())
