# SPDX-License-Identifier: Apache-2.0
"""Output of a demonstration that cannot start or whose step fails."""

import contextlib
import fcntl
import io
import os
import pathlib
import types
from unittest import mock

import fixtures

from lab import demo_steps
from lab import log_excerpts
from lab import paths
from lab import surroundings
from lab.fabric import nginx
from octavia_xdp_provider.tests.unit import base

NGINX = ('2026/01/01 00:00:00 [error] 7#7: *1 open() "/a/large" failed '
         '(13: Permission denied), client: 198.18.20.2\n')


class Temporary(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.logs = self.directory / 'logs'
        self.logs.mkdir()


class TestLogExcerpts(Temporary):

    def log(self, name, text):
        with open(self.logs / f'{name}.log', 'a') as file:
            file.write(text)

    def since(self, before):
        return log_excerpts.since(self, before)

    def test_only_new_lines_with_errors_are_returned(self):
        self.log('vm-nginx', NGINX.replace('large', 'before'))
        before = log_excerpts.sizes(self)
        self.log('vm-nginx', NGINX + 'an ordinary line\n')
        self.log('agent', '2026-01-01 1 DEBUG agent no error: refused\n')
        self.assertEqual(f'vm-nginx.log: {NGINX.strip()}', self.since(before))

    def test_replaced_log_is_read_from_its_start(self):
        self.log('bird', 'x' * 1000)
        before = log_excerpts.sizes(self)
        (self.logs / 'bird.log').unlink()
        self.log('bird', 'bird: <ERR> cannot bind\n')
        self.assertEqual('bird.log: bird: <ERR> cannot bind',
                         self.since(before))


class Steps(demo_steps.Steps):

    failure = None

    def check(self):
        if self.failure:
            raise self.failure

    def run(self):
        self.step('a download', self.fail)

    def fail(self):
        (self.lab.logs / 'vm-nginx.log').write_text(NGINX)
        raise paths.LabError('timed out after 2 s')


class TestRun(Temporary):

    def run_steps(self, failure=None):
        steps = Steps(types.SimpleNamespace(
            name='some', logs=self.logs, directory=self.directory / 'lab'),
            self.directory / 'report.json')
        steps.failure = failure
        self.down = self.useFixture(fixtures.MockPatch(
            'lab.deployment.down')).mock
        self.useFixture(fixtures.MockPatch('lab.namespaces.hosts',
                                           return_value=[]))
        self.addCleanup(os.umask, os.umask(0o022))
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(1, demo_steps.run(steps))
        return errors.getvalue(), steps

    def test_failed_step_is_printed_with_excerpts_of_logs(self):
        errors, _steps = self.run_steps()
        self.assertIn('FAILED: a download: timed out after 2 s', errors)
        self.assertIn(f'  vm-nginx.log: {NGINX}', errors)

    def test_missing_requirement_is_printed_before_the_first_step(self):
        errors, steps = self.run_steps(paths.LabError('no nginx'))
        self.assertIn('FAILED: no nginx', errors)
        self.assertEqual([], steps.steps)

    def test_another_demonstration_keeps_its_lab(self):
        with open(self.directory / 'lab.demonstration', 'w') as file:
            file.write('77')
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
            errors, steps = self.run_steps()
        self.assertIn('lab some has a demonstration, process 77', errors)
        self.assertEqual([], steps.steps)
        self.down.assert_not_called()


class TestSurroundings(Temporary):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 0))
        self.useFixture(fixtures.MonkeyPatch(
            'lab.surroundings.PROGRAMS', ('sh',)))
        for name in 'LIBRARY', 'HEALTH_CHECKER':
            self.useFixture(fixtures.MonkeyPatch(
                f'lab.paths.{name}', self.directory))
        self.kernel = self.useFixture(fixtures.MockPatchObject(
            surroundings, '_kernel', return_value=())).mock
        self.lab = types.SimpleNamespace(
            directory=self.directory / 'none' / 'yet',
            run_directory=pathlib.Path('/run/some'))
        for name in 'DISK_MIB', 'RUN_MIB':
            self.useFixture(fixtures.MonkeyPatch(
                f'lab.surroundings.{name}', 0))

    def missing(self, **more):
        return str(self.assertRaises(
            paths.LabError, surroundings.check, self.lab, **more))

    def test_all_missing_requirements_are_named(self):
        self.useFixture(fixtures.MonkeyPatch('lab.surroundings.DISK_MIB',
                                             1 << 40))
        absent = self.directory / 'absent'
        text = self.missing(programs=('no-such-program', 'true'),
                            files={absent: 'tools/setup some'})
        self.assertIn('programs: no-such-program;', text)
        self.assertIn(f'{absent}; tools/setup some creates it', text)
        self.assertIn(f'MiB free below {self.directory}', text)
        self.kernel.assert_not_called()

    def test_run_directory_that_others_cannot_enter_is_named(self):
        self.lab.run_directory = self.directory / 'run'
        self.directory.chmod(0o700)
        self.assertIn(f'{self.directory} is closed to other users '
                      '(mode 0700)', self.missing())

    def test_kernel_that_allows_no_namespaces_is_named(self):
        self.kernel.return_value = ['- rights']
        self.assertIn('- rights', self.missing())

    def test_other_users_than_root_are_refused(self):
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        self.assertIn('need root', self.missing())


class TestNginx(Temporary):
    """nginx's worker gives up root."""

    def test_nginx_reads_and_writes_no_files_in_the_checkout(self):
        lab = paths.Lab('some')
        lab.directory = self.directory / 'checkout'
        lab.run_directory = self.directory / 'run'
        lab.run_directory.mkdir()
        with (mock.patch('lab.processes.start') as started,
                mock.patch('shutil.chown')):
            previous = os.umask(0o077)
            self.addCleanup(os.umask, previous)
            nginx.start(lab, 'member1', [80], None)
        argv = started.call_args.args[3]
        configuration = argv[argv.index('-c') + 1].read_text()
        self.assertIn(f'root {lab.run_directory}/', configuration)
        self.assertNotIn(str(lab.directory), configuration)
        served = nginx.files(lab, 'member1')
        for level in (served, *served.parents):
            if level.is_relative_to(lab.run_directory / 'shared'):
                self.assertEqual(0o755, level.stat().st_mode & 0o777, level)
