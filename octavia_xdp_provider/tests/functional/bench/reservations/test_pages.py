# SPDX-License-Identifier: Apache-2.0
"""The pages by HTTP, of the command "serve": gunicorn with its processes."""

import http.client
import os
import pathlib
import re
import stat
import threading

import fixtures
import requests

from octavia_xdp_provider.tests.functional.bench.reservations import command
from octavia_xdp_provider.tests.functional.bench.reservations import pages
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench.reservations import samples

PASSWORD = 'correct horse battery'  # noqa: S105
WRONG = 'wrong password'
WAIT_S = 120
# Without what boots: servers need an interface of the host.
TEXT = samples.TEXT[:samples.TEXT.index('kernels:')]


class TestPages(waiting.Waiting, base.TestCase):

    SOON, LOOK = WAIT_S, 0.1

    def setUp(self):
        super().setUp()
        self.bed = command.Command(pathlib.Path(
            self.useFixture(fixtures.TempDir()).path), TEXT)
        pages.make_users(self, self.bed, PASSWORD)
        self.url = pages.serve(self, self.bed)

    def token(self, session, path='/'):
        page = session.get(self.url + path).text
        return re.search('name="csrf_token"[^>]*value="([^"]+)"', page)[1]

    def post(self, session, path, **data):
        return session.post(self.url + path, data={
            'csrf_token': self.token(session), **data})

    def session(self, name):
        """Of a user who has logged in."""
        session = requests.Session()
        self.addCleanup(session.close)
        answer = session.post(f'{self.url}/login', data={
            'name': name, 'password': PASSWORD,
            'csrf_token': self.token(session, '/login')})
        self.assertIn('Who has what', answer.text)
        return session

    def reserve(self, session, *machines):
        return self.post(session, '/reserve', machines=machines,
                         purpose='rates', hours='8')

    def test_from_login_to_a_sync_that_was_asked_for(self):
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

    @form.in_long_form
    def test_of_many_browsers_exactly_one_wins(self):
        sessions = [self.session(name) for name in ('alice', 'bob') * 3]
        tokens = [self.token(one) for one in sessions]
        answers = []

        def reserve(session, token):
            answers.append(session.post(f'{self.url}/reserve', data={
                'csrf_token': token, 'machines': 'lb1', 'purpose': 'x',
                'hours': '1'}, allow_redirects=False).status_code)
        threads = [threading.Thread(target=reserve, args=pair)
                   for pair in zip(sessions, tokens, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([302] + [409] * 5, sorted(answers))

    @form.in_long_form
    def test_attempts_are_counted_by_all_processes_together(self):
        answers = []
        for _ in range(7):
            session = requests.Session()
            with session:
                answers.append(session.post(f'{self.url}/login', data={
                    'name': 'alice', 'password': WRONG,
                    'csrf_token': self.token(session, '/login'),
                }).status_code)
        self.assertEqual([403] * 5 + [429] * 2, answers)

    @form.in_long_form
    def test_without_a_token_or_a_session_nothing_changes(self):
        alice = self.session('alice')
        data = {'machines': 'lb1', 'purpose': 'x', 'hours': '1'}
        self.assertEqual(400, alice.post(f'{self.url}/reserve', data=data)
                         .status_code)
        token = self.token(alice)
        self.assertEqual(400, requests.post(
            f'{self.url}/reserve', data={**data, 'csrf_token': token},
            timeout=WAIT_S).status_code)
        self.assertEqual(0, self.bed.run('log')[0])
        self.assertEqual('', self.bed.run('log')[1])

    @form.in_long_form
    def test_malformed_requests_do_not_end_it(self):
        host, port = self.url.removeprefix('http://').split(':')
        for body in (b'', b'\xff\xfe=%%%', b'a' * 70_000):
            connection = http.client.HTTPConnection(host, int(port))
            connection.request('POST', '/login', body, {
                'Content-Type': 'application/x-www-form-urlencoded'})
            self.assertIn(connection.getresponse().status, (400, 413))
            connection.close()
        self.assertEqual(200, requests.get(f'{self.url}/login',
                                           timeout=WAIT_S).status_code)

    @form.in_long_form
    def test_what_is_secret_is_for_its_owner_alone(self):
        self.session('alice')
        for name in 'secret_key', 'users', 'leases.sqlite':
            mode = stat.S_IMODE(os.stat(self.bed.folder / name).st_mode)
            self.assertEqual(0o600, mode, name)
