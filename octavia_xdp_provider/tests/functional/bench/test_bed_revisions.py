# SPDX-License-Identifier: Apache-2.0
"""Packages of revisions: real git, real packages, of a small project."""

import pathlib
import subprocess

import fixtures
from oslotest import base

from bench import errors
from bench.beds import packages
from bench.beds import revisions
from octavia_xdp_provider.tests.support import form

# In place of lab/packages, which needs minutes: a package of one file.
BUILD = '''\
import pathlib, re, subprocess
root = pathlib.Path(__file__).parents[2]
def source():
    assert not (root / 'build/packages').exists()
def packages():
    version = re.search(r'\\\\((.*)\\\\)', (
        root / 'deploy/debian/changelog').read_text())[1]
    tree = root / 'build/tree'
    (tree / 'DEBIAN').mkdir(parents=True)
    (tree / 'DEBIAN/control').write_text(
        f'Package: octavia-xdp-node\\\\nVersion: {version}\\\\n'
        'Architecture: all\\\\nMaintainer: none <none@example.org>\\\\n'
        'Description: none\\\\n')
    (tree / 'DEBIAN/md5sums').write_text((root / 'file').read_text())
    (root / 'build/packages').mkdir()
    subprocess.run(['dpkg-deb', '--root-owner-group', '--build', tree,
                    root / 'build/packages'], check=True)
'''.replace('\\\\', '\\')


@form.in_long_form
class TestRevisions(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.root, self.folder = folder / 'project', folder / 'packages'
        for name, text in (('deploy/debian/changelog',
                            'octavia-xdp (0.1.0) none; urgency=low\n'),
                           ('lab/packages/build.py', BUILD),
                           ('file', 'first\n')):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        self.git('init', '--quiet')
        self.first = self.commit()

    def git(self, *words):
        return subprocess.run(
            ['git', '-c', 'user.name=none', '-c', 'user.email=none', '-C',
             self.root, *words], check=True, capture_output=True,
            text=True).stdout.strip()

    def commit(self):
        self.git('add', '--all')
        self.git('commit', '--quiet', '--message', 'some')
        return self.git('rev-parse', 'HEAD')

    def build(self, ref):
        return revisions.packages_of(ref, self.root, self.folder)

    def test_each_commit_is_another_version(self):
        (self.root / 'file').write_text('second\n')
        second = self.commit()
        built = {commit: packages.in_folder(self.build(commit))
                 for commit in (self.first, second)}
        for commit, text in ((self.first, 'first'), (second, 'second')):
            when = self.git('show', '--no-patch', '--format=%ct', commit)
            self.assertEqual(f'0.1.0+{when}.g{commit[:12]}',
                             built[commit].version)
            self.assertEqual({packages.NODE: packages.contents_of(text)},
                             built[commit].contents)
        # Nothing is left of it in the checkout.
        self.assertEqual(1, len(self.git('worktree', 'list').splitlines()))
        self.assertEqual('', self.git('status', '--porcelain'))

    def test_it_is_built_once(self):
        path, = self.build('HEAD').glob('*.deb')
        before = path.stat()
        self.assertEqual([path], list(self.build(self.first).glob('*.deb')))
        self.assertEqual(before, path.stat())

    def test_after_one_that_was_killed(self):
        (self.folder / 'tree/build/packages').mkdir(parents=True)
        (self.folder / 'new').mkdir()
        (self.folder / 'new/other.deb').write_text('half')
        packages.in_folder(self.build('HEAD'))

    def refused(self, ref):
        error = self.assertRaises(errors.BenchError, self.build, ref)
        self.assertFalse((self.folder / 'tree').exists())
        return str(error)

    def test_what_cannot_be_built(self):
        self.assertIn('nothing: no commit', self.refused('nothing'))
        (self.root / 'lab/packages/build.py').write_text(
            'raise SystemExit("broken")')
        self.assertIn('broken', self.refused(self.commit()))
        (self.root / 'lab/packages/build.py').write_text(
            'def source(): pass\ndef packages(): pass\n')
        self.assertIn('no package was built', self.refused(self.commit()))
        (self.root / 'deploy/debian/changelog').unlink()
        self.assertIn('has no deploy/debian/changelog',
                      self.refused(self.commit()))
        packages.in_folder(self.build(self.first))
