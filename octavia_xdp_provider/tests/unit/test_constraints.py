# SPDX-License-Identifier: Apache-2.0
"""Locked versions support each Python that the set-up accepts."""

import configparser
import os
import pathlib
import re
import subprocess
import sys

import fixtures
from packaging import requirements
from packaging import utils

import octavia_xdp_provider
from octavia_xdp_provider.tests.unit import base

ROOT = pathlib.Path(octavia_xdp_provider.__file__).parent.parent
COMMAND = ROOT / 'tools/python'
# Constraints, and the lists that they are for.
LOCKED = {
    'constraints.txt': (
        'requirements.txt', 'test-requirements.txt', 'doc/requirements.txt',
        'lab/requirements.txt', 'bench/requirements.txt',
        'testbed/requirements.txt'),
    'lab/tempest/constraints.txt': ('lab/tempest/requirements.txt',),
    'lab/horizon/constraints.txt': ('lab/horizon/requirements.txt',),
}


def versions():
    return subprocess.run(
        [COMMAND, '--versions'], check=True, capture_output=True,
        text=True).stdout.split()


def read(name, python):
    """Requirements of a file that count for a Python: (name, requirement)."""
    environment = {'python_version': python,
                   'python_full_version': f'{python}.0'}
    for line in (ROOT / name).read_text().splitlines():
        line = line.partition('#')[0].strip()
        if line:
            requirement = requirements.Requirement(line)
            marker = requirement.marker
            if not marker or marker.evaluate(environment):
                yield utils.canonicalize_name(requirement.name), requirement


class TestConstraints(base.TestCase):

    def test_each_requirement_is_locked_for_each_python(self):
        for python in versions():
            for constraints, lists in LOCKED.items():
                locked = dict(read(constraints, python))
                for name in lists:
                    for package, wanted in read(name, python):
                        what = f'{package} of {name}, Python {python}'
                        self.assertIn(package, locked, what)
                        [pin] = locked[package].specifier
                        self.assertTrue(
                            wanted.specifier.contains(pin.version), what)

    def test_no_package_is_locked_twice_for_one_python(self):
        for python in versions():
            for constraints in LOCKED:
                names = [name for name, _ in read(constraints, python)]
                self.assertEqual(sorted(set(names)), sorted(names))

    def test_every_line_locks_one_version(self):
        for constraints in LOCKED:
            for line in (ROOT / constraints).read_text().splitlines():
                [pin] = requirements.Requirement(line).specifier
                self.assertEqual('==', pin.operator, line)

    def test_setup_cfg_names_the_locked_pythons(self):
        setup = configparser.ConfigParser()
        setup.read(ROOT / 'setup.cfg')
        for python in versions():
            self.assertIn(f'Programming Language :: Python :: {python}\n',
                          setup['metadata']['classifier'] + '\n')


class TestPythonOfTheSetup(base.TestCase):

    def run_with(self, named):
        return subprocess.run(
            [COMMAND], env={**os.environ, 'OCTAVIA_XDP_PYTHON': named},
            capture_output=True, text=True)

    def test_named_program_is_used(self):
        done = self.run_with(sys.executable)
        major, minor = sys.version_info[:2]
        if f'{major}.{minor}' not in versions():
            self.assertEqual(1, done.returncode)
            self.assertIn('must be one of', done.stderr)
            return
        self.assertEqual(0, done.returncode, done.stderr)
        # The Python below the virtual environment, which may be replaced.
        program = pathlib.Path(done.stdout.strip())
        self.assertEqual(pathlib.Path(sys.executable).resolve(),
                         program.resolve())
        self.assertNotIn(sys.prefix, str(program))

    def test_other_programs_than_python_are_refused_by_name(self):
        done = self.run_with('/bin/false')
        self.assertEqual((1, ''), (done.returncode, done.stdout))
        self.assertIn('OCTAVIA_XDP_PYTHON=/bin/false is no Python',
                      done.stderr)

    def test_unsupported_python_is_refused_by_name(self):
        program = self.useFixture(fixtures.TempDir()).join('python')
        with open(program, 'w') as file:
            file.write('#!/bin/sh\necho 3.9\n')
        os.chmod(program, 0o700)
        done = self.run_with(program)
        self.assertEqual((1, ''), (done.returncode, done.stdout))
        self.assertIsNotNone(re.search(
            'is Python 3.9, but must be one of: 3.11 3.13', done.stderr))
