# SPDX-License-Identifier: Apache-2.0
"""Killed at each step of "reserve", "release" and "sync": nothing is half
made, and a second run works.
"""

import pathlib
import shutil
import signal
import subprocess

import fixtures

from octavia_xdp_provider.tests.functional.testbed import command
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.testbed import samples

KILLED = 'octavia_xdp_provider.tests.functional.testbed.killed'
# In short few steps, from another one on for each command.
STRIDE = 1 if form.LONG else 23
STEPS_MAX = 400
# Without what boots: servers need an interface of the host.
TEXT = samples.TEXT[:samples.TEXT.index('kernels:')]
VRF = 'iface bed1\n'


class TestKill(base.TestCase):

    def setUp(self):
        super().setUp()
        self.parent = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.before = self.parent / 'before'
        self.before.mkdir()

    def prepare(self, *commands):
        """The state before, once; `steps` copies it for each kill."""
        bed = command.Command(self.before, TEXT)
        for words in commands:
            status, said = bed.run(*words)
            self.assertEqual(0, status, said)

    def steps(self, first, *words):
        """A bed after each kill, until there is no step left.

        :param first: of the short form.
        """
        for step in range(1 if form.LONG else first, STEPS_MAX, STRIDE):
            folder = self.parent / 'after'
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.before, folder)
            bed = command.Command(folder, TEXT)
            status, said = bed.run(*words, module=(KILLED, str(step)))
            if status == 0:
                self.assertGreater(step, 10)
                return
            self.assertEqual(-signal.SIGKILL, status, said)
            with self.subTest(step=step):
                yield bed
        self.fail(f'{words[0]} has more than {STEPS_MAX} steps')

    def succeeds(self, bed, *words, **more):
        status, said = bed.run(*words, **more)
        self.assertEqual(0, status, said)
        return said

    def holders(self, bed):
        """Machine → owner, as listed."""
        rows = [row.split() for row
                in self.succeeds(bed, 'list').splitlines()[1:]]
        return {row[0]: row[3] for row in rows if row[2] != '-'}

    def synced(self, bed):
        """After a sync the switch has what the repository has, all of it."""
        self.assertIn('applied: commit', self.succeeds(bed, 'sync'))
        self.assertEqual('', self.succeeds(bed, 'sync', '--diff'))
        git = ['git', f'--git-dir={bed.folder}/configuration.git']
        subprocess.run([*git, 'fsck', '--strict'], check=True,
                       capture_output=True)
        self.assertIn('switch leaf1: 0 changed', self.succeeds(bed, 'sync'))
        return (bed.switches / 'leaf1/interfaces').read_text()

    def actions(self, bed):
        return [word for line in self.succeeds(bed, 'log').splitlines()
                for word in line.split()
                if word in ('reserve', 'release')]

    def test_reserve(self):
        words = 'reserve', 'lb1', 'gen1', '--purpose', 'a-test'
        for bed in self.steps(1, *words):
            holders = self.holders(bed)
            self.assertIn(holders, ({}, {'lb1': 'alice', 'gen1': 'alice'}))
            if not holders:
                self.succeeds(bed, *words)
            self.assertEqual(['reserve'], self.actions(bed))
            self.assertIn(VRF, self.synced(bed))

    @form.in_long_form
    def test_release(self):
        self.prepare(('reserve', 'lb1', 'gen1', '--purpose', 'a-test'),
                     ('sync',))
        for bed in self.steps(3, 'release', '1'):
            if self.holders(bed):
                self.succeeds(bed, 'release', '1')
            self.assertEqual({}, self.holders(bed))
            self.assertEqual(['reserve', 'release'], self.actions(bed))
            self.assertNotIn(VRF, self.synced(bed))

    @form.in_long_form
    def test_sync(self):
        self.prepare(('reserve', 'lb1', '--purpose', 'a-test'))
        for bed in self.steps(5, 'sync'):
            self.assertEqual({'lb1': 'alice'}, self.holders(bed))
            self.assertIn(VRF, self.synced(bed))
