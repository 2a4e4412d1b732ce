# SPDX-License-Identifier: Apache-2.0
"""What is released works by itself: sdist, wheel, and the checker's crate."""

import configparser
import os
import pathlib
import pwd
import shutil
import sqlite3
import subprocess
import zipfile

import fixtures

from lab import demo_steps
from lab import paths
from lab.packages import commands
from lab.packages import sdist
from octavia_xdp_provider.tests.unit import base

UV = paths.CHECKOUT / 'tools/uv'
VERSION = '1.2.3'
LOAD = '''
from importlib import metadata
for group in ('octavia.api.drivers', 'octavia.driver_agent.provider_agents',
              'oslo.config.opts', 'octavia_xdp.scheduler.filters',
              'octavia_xdp.scheduler.weighers'):
    found = [entry for entry in metadata.entry_points(group=group)
             if entry.value.startswith('octavia_xdp_provider.')]
    assert found, group
    for entry in found:
        print(entry.load().__module__)
import octavia_xdp_provider
print(octavia_xdp_provider.__file__)
'''


class TestRelease(base.TestCase):

    def setUp(self):
        super().setUp()
        if not (paths.CHECKOUT / '.git').exists():
            self.skipTest('the names of files come from git')
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)

    def run_in_directory(self, *words, **environment):
        """Run a command where there is no checkout.

        :returns: what it said.
        """
        try:
            return commands.run(*words, cwd=self.directory, **environment)
        except demo_steps.StepFailed as error:
            self.fail(str(error))

    def make(self):
        """Sdist and wheel, in a folder of their own."""
        folder = self.directory / 'made'
        folder.mkdir()
        archive = sdist.make(folder, VERSION)
        return archive, sdist.wheel(archive)

    def tracked(self, *folders):
        return set(subprocess.run(
            ['git', 'ls-files', *folders], cwd=paths.CHECKOUT, check=True,
            capture_output=True, text=True).stdout.splitlines())

    def test_the_wheel_of_the_sdist_works_by_itself(self):
        archive, wheel = self.make()
        self.assertIn(VERSION, wheel.name)
        # All that is built is built from the sdist.
        inside = set(self.run_in_directory('tar', '--list', '--file',
                                           archive).splitlines())
        missing = {name for name in self.tracked(
            'datapath', 'deploy', 'hc-agent', 'octavia_xdp_provider', 'etc')
            if f'octavia_xdp_provider-{VERSION}/{name}' not in inside}
        self.assertEqual(set(), missing)
        with zipfile.ZipFile(wheel) as file:
            missing = self.tracked('octavia_xdp_provider') - set(
                file.namelist())
        self.assertEqual(set(), missing)

        python = self.directory / 'venv/bin/python'
        self.run_in_directory(UV, 'venv', '--python',
                              paths.VENV / 'bin/python', python.parents[1])
        self.run_in_directory(
            UV, 'pip', 'install', '--python', python, '--constraint',
            paths.CHECKOUT / 'constraints.txt', wheel)
        said = self.run_in_directory(python, '-c', LOAD)
        self.assertIn(f'{python.parents[1]}/', said)
        for name in self.commands():
            said = self.run_in_directory(python.with_name(name), '--help')
            self.assertIn('usage', said.lower(), name)
        self.check_migrations(python)

    def test_the_dashboards_wheel_has_its_scripts_and_its_switch(self):
        source = self.directory / 'dashboard'
        for name in self.tracked('dashboard'):
            target = self.directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(paths.CHECKOUT / name, target)
        self.run_in_directory(
            UV, 'build', '--wheel', '--python', paths.VENV / 'bin/python',
            '--out-dir', self.directory / 'made', source,
            PBR_VERSION=VERSION)
        wheel, = (self.directory / 'made').glob('*.whl')
        self.assertIn(VERSION, wheel.name)
        with zipfile.ZipFile(wheel) as file:
            missing = {name.removeprefix('dashboard/') for name in
                       self.tracked('dashboard/octavia_xdp_dashboard')
                       } - set(file.namelist())
        self.assertEqual(set(), missing)

    def commands(self):
        setup = configparser.ConfigParser()
        setup.read(paths.CHECKOUT / 'setup.cfg')
        lines = setup['entry_points']['console_scripts'].split('\n')
        names = [line.split('=')[0].strip() for line in lines if line]
        self.assertIn('octavia-xdp-manage', names)
        return names

    def check_migrations(self, python):
        database = self.directory / 'octavia-xdp.sqlite'
        settings = self.directory / 'octavia-xdp.conf'
        settings.write_text(
            '[DEFAULT]\ntransport_url = fake://\n[database]\n'
            f'connection = sqlite:///{database}\n')
        self.run_in_directory(
            python.with_name('octavia-xdp-manage'), '--config-file',
            settings, 'database', 'upgrade')
        connection = sqlite3.connect(database)
        self.addCleanup(connection.close)
        tables = {name for name, in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'")}
        self.assertIn('host_keys', tables)
        self.assertIn('alembic_version', tables)

    def test_the_crate_of_the_checker_compiles_without_the_checkout(self):
        # Tests have another home.
        home = pwd.getpwuid(os.getuid()).pw_dir
        path = f'{os.environ["PATH"]}:{home}/.cargo/bin'
        if shutil.which('cargo', path=path) is None:
            self.skipTest('no cargo')
        # It compiles what it has packed, with the crates of other builds.
        said = self.run_in_directory(
            'cargo', 'package', '--locked', '--allow-dirty',
            '--manifest-path', paths.CHECKOUT / 'hc-agent/Cargo.toml',
            PATH=path, HOME=home)
        self.assertIn('Verifying', said)
