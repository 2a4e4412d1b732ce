# SPDX-License-Identifier: Apache-2.0
"""The pages, by Flask's client: forms, refusals, headers, sessions."""

import html
import os
import pathlib
import re
from unittest import mock

import fixtures

from bench import errors
from bench.reservations import folder as folders
from bench.reservations import leases
from bench.reservations import repository
from bench.reservations import runs
from bench.reservations.web import app
from bench.reservations.web import background
from bench.reservations.web import security
from bench.reservations.web import serve
from bench.reservations.web import throttle
from bench.reservations.web import users
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench.reservations import samples

PASSWORD = 'correct horse battery'  # noqa: S105
WRONG = 'wrong password'
HOSTILE = '<script>alert(1)</script>" onload="x {{ 7 * 7 }}'


class WebTest(base.TestCase):

    header = None
    https = proxy = False

    def setUp(self):
        super().setUp()
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        samples.write(path)
        self.folder = folders.Folder(path)
        self.users = users.Users(self.folder)
        # Hashes that take their time are for test_users.
        self.useFixture(fixtures.MockPatchObject(
            users, '_METHOD', 'pbkdf2:sha256:1'))
        for name in ('alice', 'bob'):
            self.users.set(name, PASSWORD)
        self.site = self.folder.leases()
        self.app = app.create(self.folder, self.https, self.proxy,
                              self.header)
        self.client = self.app.test_client()

    def token(self, client, path='/'):
        page = client.get(path).get_data(as_text=True)
        return re.search('name="csrf_token"[^>]*value="([^"]+)"', page)[1]

    def login(self, name='alice', password=PASSWORD, client=None):
        client = client or self.client
        return client.post('/login', data={
            'name': name, 'password': password,
            'csrf_token': self.token(client, '/login')})

    def post(self, path, client=None, **data):
        client = client or self.client
        return client.post(path, data={
            'csrf_token': self.token(client), **data}, follow_redirects=True)

    def reserve(self, *machines, client=None, **more):
        return self.post('/reserve', client, machines=list(machines), **{
            'purpose': 'rates', 'hours': '8', 'kernel': '', **more})

    def shows(self, text, answer, status=200):
        page = html.unescape(answer.get_data(as_text=True))
        self.assertEqual(status, answer.status_code, page)
        self.assertIn(text, page)

    def other(self):
        """A client in which bob is logged in."""
        client = self.app.test_client()
        self.login('bob', client=client)
        return client


class TestPages(WebTest):

    def setUp(self):
        super().setUp()
        self.login()

    def test_reserved_renewed_released_and_logged(self):
        self.shows('Lease 1 is yours until', self.reserve(
            'lb1', 'lb2', kernel='debian-6.12'))
        self.assertEqual('debian-6.12', self.site.active()[0].kernel)
        self.shows('Lease 1 is yours until', self.post('/leases/1/renew',
                                                       hours='40'))
        lease = self.site.active()[0]
        self.assertLess(39 * 3600, lease.expires - lease.begins)
        self.shows('+    vrf bed1', self.client.get('/diff'))
        self.shows('Lease 1 has ended', self.post('/leases/1/release'))
        self.assertEqual([], self.site.active())
        page = self.client.get('/log').get_data(as_text=True)
        self.assertEqual(['release', 'renew', 'reserve'], re.findall(
            '<td>(reserve|renew|release)</td>', page))

    def test_taken_machines_are_refused_with_who_has_them(self):
        self.reserve('lb1', client=self.other())
        self.shows('lb1 is taken by bob until', self.reserve('lb1'), 409)
        self.shows('bob', self.client.get('/'))

    def test_what_is_entered_wrongly_is_said_at_the_field(self):
        for said, more in (('one machine', {'machines': ()}),
                           ('what for', {'purpose': ''}),
                           ('between 1 and 48', {'hours': '49'}),
                           ('Not a valid integer', {'hours': 'x'}),
                           ('Not a valid choice', {'kernel': 'plan9'})):
            with self.subTest(said):
                self.shows(said, self.reserve(
                    *more.get('machines', ('lb1',)), **{
                        key: value for key, value in more.items()
                        if key != 'machines'}), 400)
        self.shows('U+202E', self.reserve('lb1', purpose='a\u202eb'), 409)
        self.assertEqual([], self.site.active())

    def test_a_machine_that_is_none_is_refused(self):
        self.assertEqual(400, self.reserve('lb9').status_code)
        self.assertEqual([], self.site.log())

    def test_only_the_owner_renews_and_releases(self):
        self.reserve('lb1')
        bob = self.other()
        for path, more in (('/leases/1/renew', {'hours': '8'}),
                           ('/leases/1/release', {})):
            self.shows("alice's, not bob's", self.post(path, bob, **more),
                       409)
        self.assertEqual(1, len(self.site.active()))

    def test_all_that_people_enter_is_escaped(self):
        self.reserve('lb1', purpose=HOSTILE)
        for path in '/', '/log', '/diff':
            page = self.client.get(path).get_data(as_text=True)
            self.assertNotIn('<script', page)
            self.assertNotIn(' onload="', page)
        self.assertIn(HOSTILE, html.unescape(
            self.client.get('/log').get_data(as_text=True)))

    def test_nothing_is_changed_by_get_or_without_a_token(self):
        self.reserve('lb1')
        paths = ('/reserve', '/leases/1/renew', '/leases/1/release',
                 '/sync/start', '/logout')
        for path in paths:
            self.assertEqual(405, self.client.get(path).status_code, path)
            for data in ({}, {'csrf_token': 'made-up'}):
                answer = self.client.post(path, data={
                    'machines': 'lb2', 'purpose': 'x', 'hours': '8',
                    'kernel': '', **data})
                self.shows('Refused', answer, 400)
        self.assertEqual(1, len(self.site.log()))
        self.assertEqual(200, self.client.get('/').status_code)

    def test_a_token_of_another_session_is_refused(self):
        stolen = self.token(self.other())
        answer = self.client.post('/reserve', data={
            'machines': 'lb1', 'purpose': 'x', 'hours': '8', 'kernel': '',
            'csrf_token': stolen})
        self.shows('Refused', answer, 400)
        self.assertEqual([], self.site.active())

    def test_a_sync_is_started_as_a_process_and_one_at_a_time(self):
        self.shows('There was none yet', self.client.get('/sync'))
        record = runs.Runs(self.site)

        def popen(words, **_):
            self.assertEqual(['--owner=alice', 'sync'], words[-2:])
            record.begin('alice')
            return mock.Mock(poll=lambda: None)

        token = {'csrf_token': self.token(self.client)}
        with (mock.patch.object(background.subprocess, 'Popen', popen),
              mock.patch.object(background.sync, 'running',
                                side_effect=[False, True, True])):
            self.shows('running', self.client.post(
                '/sync/start', data=token, follow_redirects=True))
            self.shows('runs already', self.client.post(
                '/sync/start', data=token), 409)
        # Its process has gone, and said nothing.
        self.shows('killed', self.client.get('/sync'))

    def test_a_broken_inventory_is_said(self):
        (self.folder.path / 'inventory.yaml').write_text('machines: 7')
        self.shows('inventory.yaml:1', self.client.get('/'), 409)


class TestAnswers(WebTest):

    def test_headers_of_all_answers(self):
        for path in '/login', '/', '/static/style.css', '/none':
            headers = self.client.get(path).headers
            for name, value in security.HEADERS.items():
                self.assertEqual(value, headers[name], path)
        self.assertNotIn('unsafe', security.POLICY)
        self.assertEqual('no-store',
                         self.client.get('/login').headers['Cache-Control'])

    def test_pages_have_no_script_and_no_inline_style(self):
        self.login()
        self.reserve('lb1')
        self.shows('Your leases', self.client.get('/'))
        for path in '/', '/log', '/diff', '/sync':
            page = self.client.get(path).get_data(as_text=True)
            self.assertNotRegex(page, r'<script|style=| on[a-z]+=')

    def test_each_field_has_a_label_and_each_table_its_headers(self):
        self.login()
        self.reserve('lb1')
        page = self.client.get('/').get_data(as_text=True)
        labels = set(re.findall('<label for="([^"]+)"', page))
        for field in re.findall('<(?:input|select)[^>]*>', page):
            if 'hidden' not in field:
                self.assertIn(re.search('id="([^"]+)"', field)[1], labels)
        # A browser would want all boxes of one name to be ticked.
        for box in re.findall('<input[^>]*type="checkbox"[^>]*>', page):
            self.assertNotIn('required', box)
        ids = re.findall(' id="([^"]+)"', page)
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(7, page.count('<th scope="col">'))
        self.assertIn('<html lang="en">', page)

    def test_a_request_that_is_too_large_is_refused(self):
        answer = self.client.post('/login', data={'name': 'x' * 100_000})
        self.assertEqual(413, answer.status_code)


class TestLogin(WebTest):

    def test_nothing_is_shown_before(self):
        for path in '/', '/diff', '/sync', '/log':
            answer = self.client.get(path)
            self.assertEqual((302, '/login'),
                             (answer.status_code, answer.location))
        self.assertNotIn('gen1', self.client.get('/login').get_data(
            as_text=True))

    def test_name_and_password_have_to_be_right(self):
        for name, password in (('alice', WRONG),
                               ('nobody', PASSWORD), ('nobody', 'nobody')):
            self.shows('Name or password is wrong',
                       self.login(name, password), 403)
        self.assertEqual(302, self.login().status_code)
        self.shows('alice', self.client.get('/'))

    def test_the_cookie(self):
        cookie = self.login().headers['Set-Cookie']
        self.assertIn('HttpOnly', cookie)
        self.assertIn('SameSite=Lax', cookie)
        self.assertNotIn('Secure', cookie)

    def test_a_refused_form_without_a_session_begins_none(self):
        for path in '/reserve', '/login', '/logout', '/none':
            answer = self.client.post(path, data={'machines': 'lb1'})
            self.assertNotIn('Set-Cookie', answer.headers)

    def test_a_session_is_new_after_the_login(self):
        token = self.token(self.client, '/login')
        self.login()
        self.shows('Refused', self.client.post('/logout', data={
            'csrf_token': token}), 400)

    def test_it_ends_with_the_logout_the_password_and_the_user(self):
        def end_by_logout():
            self.post('/logout')

        for end in (end_by_logout,
                    lambda: self.users.set('alice', 'another password'),
                    lambda: self.users.remove('alice')):
            self.users.set('alice', PASSWORD)
            self.login()
            self.assertEqual(200, self.client.get('/').status_code)
            end()
            self.assertEqual(302, self.client.get('/').status_code)

    def test_attempts_are_throttled(self):
        for _ in range(throttle.LIMITS['pair']):
            self.assertEqual(403, self.login(password=WRONG)
                             .status_code)
        answer = self.login()
        self.shows('Too many attempts', answer, 429)
        self.assertEqual('900', answer.headers['Retry-After'])
        # Another name from there, the same name from elsewhere.
        self.assertEqual(302, self.login('bob').status_code)
        client = self.app.test_client()
        client.environ_base = {'REMOTE_ADDR': '192.0.2.99'}
        self.assertEqual(302, self.login(client=client).status_code)

    def test_attempts_of_an_address_are_throttled_whatever_the_name(self):
        limits = {'pair': 5, 'address': 3, 'name': 100}
        with mock.patch.object(throttle, 'LIMITS', limits):
            for number in range(3):
                self.login(f'user{number}', WRONG)
            self.assertEqual(429, self.login().status_code)

    def test_right_attempts_do_not_count(self):
        for _ in range(2 * throttle.LIMITS['pair']):
            self.assertEqual(302, self.login(
                client=self.app.test_client()).status_code)

    def test_attempts_are_forgotten(self):
        clock = samples.Clock()
        gate = throttle.Throttle(leases.Leases(self.site.engine, clock))
        for _ in range(throttle.LIMITS['pair']):
            self.assertIsNotNone(gate.begin('alice', '192.0.2.1'))
        self.assertIsNone(gate.begin('alice', '192.0.2.1'))
        clock.seconds += throttle.WINDOW_S
        self.assertIsNotNone(gate.begin('alice', '192.0.2.1'))
        for _ in range(throttle.LIMITS['pair'] - 1):
            gate.begin('alice', '192.0.2.1')
        self.assertIsNone(gate.begin('alice', '192.0.2.1'))
        clock.seconds -= 86400
        self.assertIsNotNone(gate.begin('alice', '192.0.2.1'))


class TestBehindProxy(WebTest):

    header, https, proxy = 'X-Remote-User', True, True

    def get(self, path='/', **headers):
        return self.client.get(path, headers={
            'X-Forwarded-Proto': 'https', **headers})

    def test_the_header_says_who(self):
        self.shows('carol', self.get(**{'X-Remote-User': 'carol'}))

    def test_without_it_nothing_is_shown_and_nobody_logs_in(self):
        for value in ({}, {'X-Remote-User': ''},
                      {'X-Remote-User': 'Al <a@b>'}):
            self.assertEqual(401, self.get(**value).status_code)
        self.assertEqual(404, self.get('/login').status_code)

    def test_forms_need_their_token_and_page(self):
        headers = {'X-Remote-User': 'carol', 'X-Forwarded-Proto': 'https'}
        page = self.get(**headers).get_data(as_text=True)
        token = re.search('name="csrf_token"[^>]*value="([^"]+)"', page)[1]
        data = {'machines': 'lb1', 'purpose': 'x', 'hours': '8', 'kernel': ''}
        for token_sent, referrer, status in (
                ('', 'https://localhost/', 400),
                (token, 'https://elsewhere.example/', 400),
                (token, 'https://localhost/', 302)):
            answer = self.client.post('/reserve', data={
                **data, 'csrf_token': token_sent}, headers={
                **headers, 'Referer': referrer}, base_url='https://localhost')
            self.assertEqual(status, answer.status_code)
        self.assertEqual('carol', self.site.active()[0].owner)

    def test_cookies_go_by_https_alone(self):
        answer = self.get(**{'X-Remote-User': 'carol'})
        cookie = answer.headers['Set-Cookie']
        self.assertIn('__Host-session=', cookie)
        self.assertIn('Secure', cookie)
        self.assertIn('Path=/', cookie)
        self.assertIn('max-age', answer.headers['Strict-Transport-Security'])


class TestFiles(WebTest):

    def refused(self, said, function, *arguments):
        error = self.assertRaises(errors.BenchError, function, *arguments)
        self.assertIn(said, str(error))

    def test_keys_and_users_are_for_their_owner_alone(self):
        for name in security.KEY, users.NAME:
            path = self.folder.path / name
            self.assertEqual(0o600, path.stat().st_mode & 0o777)
            path.chmod(0o640)
        self.refused('0640', security.secret_key, self.folder)
        self.refused('0640', self.users.check, 'alice', PASSWORD)

    def test_the_key_stays(self):
        key = security.secret_key(self.folder)
        self.assertEqual(64, len(key))
        self.assertEqual(key, security.secret_key(self.folder))

    def test_passwords_are_hashed_and_bounded(self):
        with mock.patch.object(users, '_METHOD', 'scrypt'):
            self.users.set('alice', PASSWORD)
        text = (self.folder.path / users.NAME).read_text()
        self.assertNotIn(PASSWORD, text)
        self.assertIn('alice:scrypt:32768:8:1$', text)
        self.assertTrue(self.users.check('alice', PASSWORD))
        self.refused('10 to 256', self.users.set, 'alice', 'short')
        self.refused('no name', self.users.set, 'a:b', PASSWORD)
        self.refused('no user', self.users.remove, 'nobody')

    def test_where_the_pages_may_be(self):
        check = serve.check
        check('127.0.0.1:8070', False, None, None, None)
        check('[::1]:8070', True, 'X-Remote-User', None, None)
        check('unix:/run/bed.sock', True, 'X-Remote-User', None, None)
        check('0.0.0.0:8070', False, None, 'c.pem', 'k.pem')
        for said, arguments in (
                ('in the clear', ('0.0.0.0:8070', False, None, None, None)),
                ('around the proxy', ('192.0.2.1:80', True, None, None,
                                      None)),
                ('anybody', ('127.0.0.1:80', False, 'X-User', None, None)),
                ('belong together', ('127.0.0.1:80', False, None, 'c', None)),
                ('one of the two', ('127.0.0.1:80', True, None, 'c', 'k')),
                ('ADDRESS:PORT', ('localhost', False, None, None, None)),
                ('ADDRESS:PORT', ('127.0.0.1:x', False, None, None, None))):
            with self.subTest(said):
                self.refused(said, check, *arguments)

    def test_what_is_no_certificate_is_named(self):
        path = self.folder.path / 'chain.pem'
        for said in 'No such file', 'PEM':
            self.refused(str(path), serve.check_certificate, str(path),
                         str(path))
            self.refused(said, serve.check_certificate, str(path), str(path))
            path.write_text('no certificate')

    def test_a_folder_that_cannot_be_made_is_named(self):
        path = self.folder.path / 'file'
        path.touch()
        self.refused('--folder', folders.Folder(path / 'below').make)

    def test_the_repository_is_not_made_by_looking(self):
        self.assertEqual('', repository.Repository(self.folder).diff())
        self.assertFalse(os.path.exists(self.folder.path / repository.NAME))
