# SPDX-License-Identifier: Apache-2.0
"""The pages, by Flask's client: forms, refusals, headers, sessions."""

import html
import os
import pathlib
import re
from unittest import mock

import fixtures

from bench import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.testbed import samples
from testbed import folder as folders
from testbed import repository
from testbed import runs
from testbed.web import app
from testbed.web import background
from testbed.web import security
from testbed.web import serve

KEY, HEADER = 'key of a test', 'X-Remote-User'
HOSTILE = '<script>alert(1)</script>" onload="x {{ 7 * 7 }}'


class WebTest(base.TestCase):
    """Requests are sent as by a reverse proxy that received HTTPS."""

    def setUp(self):
        super().setUp()
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        samples.write(path)
        self.folder = folders.Folder(path)
        self.site = self.folder.leases()
        self.app = app.create(self.folder, KEY, HEADER)
        self.app.config['PREFERRED_URL_SCHEME'] = 'https'
        self.client = self.client_of('alice')

    def client_of(self, name):
        """Return a client that the proxy names so; None: without a name."""
        client = self.app.test_client()
        client.environ_base['HTTP_REFERER'] = 'https://localhost/'
        if name is not None:
            client.environ_base['HTTP_X_REMOTE_USER'] = name
        return client

    def token(self, client):
        page = client.get('/').get_data(as_text=True)
        return re.search('name="csrf_token"[^>]*value="([^"]+)"', page)[1]

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


class TestPages(WebTest):

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
        self.reserve('lb1', client=self.client_of('bob'))
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
        bob = self.client_of('bob')
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
                 '/sync/start')
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
        stolen = self.token(self.client_of('bob'))
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
        for path in '/', '/diff', '/static/style.css', '/none':
            headers = self.client.get(path).headers
            for name, value in security.HEADERS.items():
                self.assertEqual(value, headers[name], path)
        self.assertNotIn('unsafe', security.POLICY)
        self.assertEqual('no-store',
                         self.client.get('/').headers['Cache-Control'])

    def test_pages_have_no_script_and_no_inline_style(self):
        self.reserve('lb1')
        self.shows('Your leases', self.client.get('/'))
        for path in '/', '/log', '/diff', '/sync':
            page = self.client.get(path).get_data(as_text=True)
            self.assertNotRegex(page, r'<script|style=| on[a-z]+=')

    def test_each_field_has_a_label_and_each_table_its_headers(self):
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
        answer = self.client.post('/reserve', data={'purpose': 'x' * 100_000})
        self.assertEqual(413, answer.status_code)


class TestBehindProxy(WebTest):

    def test_the_header_says_who(self):
        self.shows('carol', self.client_of('carol').get('/'))

    def test_without_a_name_nothing_is_shown_and_no_session_begins(self):
        for name in None, '', 'Al <a@b>':
            client = self.client_of(name)
            for path in '/', '/diff', '/sync', '/log', '/none':
                answer = client.get(path)
                self.shows(HEADER, answer, 401)
                self.assertNotIn('Set-Cookie', answer.headers)
        self.assertEqual(401, client.post('/reserve', data={
            'machines': 'lb1'}).status_code)

    def test_a_form_of_another_page_is_refused(self):
        data = {'machines': 'lb1', 'purpose': 'x', 'hours': '8', 'kernel': '',
                'csrf_token': self.token(self.client)}
        for referrer, status in (('https://elsewhere.example/', 400),
                                 ('https://localhost/', 302)):
            self.assertEqual(status, self.client.post(
                '/reserve', data=data, headers={'Referer': referrer},
            ).status_code)
        self.assertEqual('alice', self.site.active()[0].owner)

    def test_cookies_go_by_https_alone(self):
        headers = self.client.get('/').headers
        for word in ('__Host-session=', 'Secure', 'HttpOnly', 'Path=/',
                     'SameSite=Lax'):
            self.assertIn(word, headers['Set-Cookie'])
        self.assertIn('max-age', headers['Strict-Transport-Security'])


class TestFiles(WebTest):

    def refused(self, said, function, *arguments):
        error = self.assertRaises(errors.BenchError, function, *arguments)
        self.assertIn(said, str(error))

    def test_where_the_pages_may_be(self):
        for right in '127.0.0.1:8070', '[::1]:8070', 'unix:/run/bed.sock':
            serve.check(right)
        for said, wrong in (('around the proxy', '0.0.0.0:8070'),
                            ('around the proxy', '192.0.2.1:80'),
                            ('ADDRESS:PORT', 'localhost'),
                            ('ADDRESS:PORT', '127.0.0.1:x')):
            with self.subTest(wrong):
                self.refused(said, serve.check, wrong)

    def test_a_folder_that_cannot_be_made_is_named(self):
        path = self.folder.path / 'file'
        path.touch()
        self.refused('--folder', folders.Folder(path / 'below').make)

    def test_the_repository_is_not_made_by_looking(self):
        self.assertEqual('', repository.Repository(self.folder).diff())
        self.assertFalse(os.path.exists(self.folder.path / repository.NAME))
