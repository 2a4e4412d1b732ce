# SPDX-License-Identifier: Apache-2.0
"""Reports are sent as the review systems want them, by real requests."""

import base64
import contextlib
from http import server
import io
import json
import pathlib
import socket
import threading
from unittest import mock

import fixtures

from bench import __main__ as command
from bench import errors
from bench.post import gerrit
from bench.post import github
from bench.post import secret
from bench.post import transport
from octavia_xdp_provider.tests.unit import base

TOKEN = 'ghp_0123456789'  # noqa: S105


class Server(fixtures.Fixture):
    """:ivar requests: (method, path, headers, JSON) that came.
    :ivar answers: (status, JSON or text, headers) to (method, path), in turn;
        the last one stays.
    """

    def _setUp(self):
        self.requests, self.answers = [], {}
        outer = self

        class Handler(server.BaseHTTPRequestHandler):

            def do_GET(self):
                length = int(self.headers.get('Content-Length', 0))
                body = self.rfile.read(length)
                outer.requests.append((
                    self.command, self.path, dict(self.headers),
                    json.loads(body) if body else None))
                answers = outer.answers.get(
                    (self.command, self.path), [(404, {'message': 'no'}, {})])
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                status, text, headers = answer
                if status is None:
                    self.close_connection = True
                    return
                data = (text if isinstance(text, str)
                        else json.dumps(text)).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header('Content-Length', str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_PATCH = do_GET

            def log_message(self, *_):
                pass

        made = server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{made.server_port}'
        thread = threading.Thread(target=made.serve_forever,
                                  kwargs={'poll_interval': 0.02})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(made.server_close)
        self.addCleanup(made.shutdown)

    def on(self, method, path, *answers):
        self.answers[method, path] = [
            (*answer, {}) if len(answer) == 2 else answer
            for answer in answers]

    def methods(self):
        return [method for method, _, _, _ in self.requests]


class PostCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.server = self.useFixture(Server())
        self.useFixture(fixtures.MockPatchObject(transport, 'PAUSE', 0))

    def refused(self, text, function, *arguments):
        error = self.assertRaises(errors.BenchError, function, *arguments)
        self.assertIn(text, str(error))
        self.assertNotIn(TOKEN, str(error))


class TestGithub(PostCase):

    COMMENTS = '/repos/org/name/issues/7/comments'
    PAGE = f'{COMMENTS}?per_page=100&page=1'
    MARKER = '<!-- octavia-xdp-bench: benchmarks -->'

    def setUp(self):
        super().setUp()
        self.pull = github.PullRequest(
            self.server.url, 'org/name', 7, TOKEN)
        self.server.on('GET', '/user', (200, {'login': 'bot'}))
        self.server.on('GET', self.PAGE, (200, []))
        self.server.on('POST', self.COMMENTS,
                       (201, {'id': 1, 'html_url': 'https://x/1'}))

    def post(self, text='## Text'):
        return self.pull.post(text, 'benchmarks')

    def comment(self, number, body=None, user='bot'):
        return {'id': number, 'user': {'login': user},
                'body': f'{self.MARKER}\nold' if body is None else body}

    def test_first_comment(self):
        self.assertEqual('https://x/1', self.post())
        method, path, headers, body = self.server.requests[-1]
        self.assertEqual(('POST', self.COMMENTS), (method, path))
        self.assertEqual({'body': f'{self.MARKER}\n## Text'}, body)
        self.assertEqual(f'Bearer {TOKEN}', headers['Authorization'])
        self.assertEqual('application/vnd.github+json', headers['Accept'])
        self.assertEqual('2022-11-28', headers['X-GitHub-Api-Version'])
        self.assertEqual('application/json', headers['Content-Type'])

    def test_own_comment_is_replaced_on_whatever_page(self):
        others = [self.comment(number, 'words') for number in range(98)]
        self.server.on('GET', self.PAGE, (200, [
            *others, self.comment(98, user='somebody'),
            self.comment(99, f'> {self.MARKER}')]))
        self.server.on('GET', self.PAGE[:-1] + '2', (200, [
            self.comment(100, '<!-- octavia-xdp-bench: other -->'),
            self.comment(101)]))
        self.server.on('PATCH', '/repos/org/name/issues/comments/101',
                       (200, {'html_url': 'https://x/101'}))
        self.assertEqual('https://x/101', self.post())
        self.assertEqual(['GET', 'GET', 'GET', 'PATCH'],
                         self.server.methods())
        self.assertEqual({'body': f'{self.MARKER}\n## Text'},
                         self.server.requests[-1][3])

    def test_token_of_a_job_has_no_user(self):
        self.server.on('GET', '/user', (403, {'message': 'integration'}))
        self.server.on('GET', self.PAGE, (200, [
            self.comment(5, user='github-actions[bot]')]))
        self.server.on('PATCH', '/repos/org/name/issues/comments/5',
                       (200, {'html_url': 'https://x/5'}))
        self.assertEqual('https://x/5', self.post())

    def test_server_that_fails_is_asked_again_later(self):
        self.server.on('GET', self.PAGE, (502, 'bad'), (500, 'bad'), (200, []))
        self.post()
        self.assertEqual(['GET'] * 4 + ['POST'], self.server.methods())

    def test_limits_of_requests_are_waited_for(self):
        self.server.on('GET', self.PAGE,
                       (429, {}, {'Retry-After': '7'}), (200, []))
        with mock.patch('time.sleep') as sleep:
            self.post()
        sleep.assert_called_once_with(7)

    def test_server_that_goes_on_failing(self):
        self.server.on('GET', self.PAGE, (503, 'down'))
        self.refused('status 503: down', self.post)
        self.assertEqual(['GET'] * 6, self.server.methods())

    def test_comment_that_was_added_though_the_answer_failed(self):
        for answer in (502, 'bad'), (None, ''):
            self.server.on('POST', self.COMMENTS, answer)
            self.server.on('GET', self.PAGE, (200, []),
                           (200, [self.comment(3)]))
            self.server.on('PATCH', '/repos/org/name/issues/comments/3',
                           (200, {'html_url': 'https://x/3'}))
            self.server.requests.clear()
            self.assertEqual('https://x/3', self.post())
            self.assertEqual(1, self.server.methods().count('POST'))

    def test_what_will_not_pass_is_told_at_once(self):
        for status, text in ((401, 'has expired'), (404, 'may not see it'),
                             (422, 'refuses the text'), (403, 'the right'),
                             (301, 'has moved')):
            self.server.on('POST', self.COMMENTS, (status, {'message': 'why'}))
            self.refused(f'status {status}: ', self.post)
            self.refused(text, self.post)
            self.refused('"why"', self.post)
        self.assertEqual(15, self.server.methods().count('POST'))

    def test_answer_that_is_no_api(self):
        self.server.on('GET', self.PAGE, (200, '<html>'))
        self.refused('URL of the API', self.post)

    def test_long_reports_are_cut_where_the_api_ends(self):
        self.post('## Text\n<details>\n' + 'x' * 70000)
        body = self.server.requests[-1][3]['body']
        self.assertEqual(github.LENGTH_MAX, len(body))
        self.assertIn('</details>\n\n(cut off', body)

    def test_names_that_are_none(self):
        for name in ('org', 'a/b/c', '../..', 'a/b?c'):
            self.refused(name, github.PullRequest, self.server.url, name, 7,
                         TOKEN)
        self.refused('-->', self.pull.post, 'text', '-->')


class TestGerrit(PostCase):

    REVIEW = '/a/changes/org%2Fname~12/revisions/current/review'

    def post(self, text='text', url=None):
        gerrit.post(url or self.server.url, 'org/name~12', 'current', 'bot',
                    TOKEN, text)

    def test_message(self):
        self.server.on('POST', self.REVIEW, (503, ''), (200, ")]}'\n{}"))
        self.post('## Text')
        _method, _path, headers, body = self.server.requests[-1]
        self.assertEqual({'message': '## Text', 'notify': 'NONE',
                          'tag': 'autogenerated:octavia-xdp-bench'}, body)
        login = base64.b64encode(f'bot:{TOKEN}'.encode()).decode()
        self.assertEqual(f'Basic {login}', headers['Authorization'])

    def test_refusals(self):
        for status, text in ((401, 'wrong'), (404, 'does not exist'),
                             (409, 'closed')):
            self.server.on('POST', self.REVIEW, (status, 'why'))
            self.refused(text, self.post)
        self.server.on('POST', self.REVIEW, (200, '<html>'))
        self.refused("not Gerrit's", self.post)

    def test_long_messages_are_cut_between_characters(self):
        self.server.on('POST', self.REVIEW, (200, ")]}'\n{}"))
        self.post('ü' * 16000)
        sent = self.server.requests[-1][3]['message']
        self.assertLessEqual(len(sent.encode()), gerrit.LENGTH_MAX)
        self.assertTrue(sent.startswith('üüü'))
        self.assertIn('cut off', sent)

    def test_secrets_are_sent_encrypted_or_within_the_machine(self):
        self.refused('https://', self.post, 'text',
                     'http://review.example.org')
        self.refused('user or password', self.post, 'text',
                     'https://bot:x@review.example.org')

    def test_server_that_is_not_there(self):
        with contextlib.closing(socket.socket()) as unused:
            unused.bind(('127.0.0.1', 0))
            url = f'http://127.0.0.1:{unused.getsockname()[1]}'
            self.refused('refused', self.post, 'text', url)

    def test_requests_have_a_time_limit(self):
        with mock.patch.object(transport, 'TIMEOUT', (5, 0.05)), \
                contextlib.closing(socket.socket()) as silent:
            silent.bind(('127.0.0.1', 0))
            silent.listen(16)
            url = f'http://127.0.0.1:{silent.getsockname()[1]}'
            self.refused('timed out', self.post, 'text', url)


class TestSecret(base.TestCase):

    def test_of_environment_or_file(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (folder / 'token').write_text(f'{TOKEN}\n')
        self.useFixture(fixtures.EnvironmentVariable('X_TOKEN', TOKEN))
        for path in None, folder / 'token':
            self.assertEqual(TOKEN, secret.read('X_TOKEN', path))

    def test_what_is_no_token(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for text in ('', 'two words', 'several\nlines', 'ünïcödé'):
            (folder / 'token').write_text(text)
            error = self.assertRaises(errors.BenchError, secret.read, 'X',
                                      folder / 'token')
            if text:
                self.assertNotIn(text, str(error))
        for path in folder / 'missing', folder:
            self.assertRaises(errors.BenchError, secret.read, 'X', path)
        self.useFixture(fixtures.EnvironmentVariable('X', None))
        self.assertRaises(errors.BenchError, secret.read, 'X', None)


class TestCommand(PostCase):

    def test_each_kind(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        report = folder / 'report.md'
        report.write_text('## Text\n')
        (folder / 'token').write_text(TOKEN)
        self.server.on('GET', '/user', (200, {'login': 'bot'}))
        self.server.on('GET', TestGithub.PAGE, (200, []))
        self.server.on('POST', TestGithub.COMMENTS,
                       (201, {'html_url': 'https://x/1'}))
        self.server.on('POST', TestGerrit.REVIEW, (200, ")]}'\n{}"))
        secrets = ['--url', self.server.url, '--token-file',
                   str(folder / 'token')]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            for words in (
                    ['github', 'org/name', '7', *secrets],
                    ['gerrit', 'org/name~12', '--user', 'bot', *secrets],
                    ['file', str(folder / 'copy.md')]):
                self.assertEqual(
                    0, command.main(['post', str(report), *words]))
        self.assertEqual('## Text\n', (folder / 'copy.md').read_text())
        self.assertEqual(['GET', 'GET', 'POST', 'POST'],
                         self.server.methods())
        self.assertIn('https://x/1', said.getvalue())
        self.assertNotIn(TOKEN, said.getvalue())
