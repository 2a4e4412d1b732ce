# SPDX-License-Identifier: Apache-2.0
"""Packages under test: folders of them, and what machines have of them."""

import pathlib
import subprocess
import types

import fixtures

from bench import errors
from bench.beds import packages
from octavia_xdp_provider.tests.unit import base

CONTROL = '''\
Package: {name}
Version: {version}
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: none
'''


class TestFolder(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.made = self.folder / 'made'
        self.made.mkdir()

    def make(self, name, version='1.0', content='some', file=None):
        tree = self.folder / f'{name}-{version}-{content}'
        (tree / 'DEBIAN').mkdir(parents=True)
        (tree / 'DEBIAN/control').write_text(
            CONTROL.format(name=name, version=version))
        (tree / 'DEBIAN/md5sums').write_text(f'{content}  usr/file\n')
        subprocess.run(
            ['dpkg-deb', '--root-owner-group', '--build', tree,
             self.made / (file or f'{name}_{version}_all.deb')],
            check=True, capture_output=True)

    def refused(self, *parts):
        error = self.assertRaises(errors.BenchError, packages.in_folder,
                                  self.made)
        for part in parts:
            self.assertIn(part, str(error))

    def test_packages_and_their_index(self):
        self.make('octavia-xdp-node')
        self.make('octavia-xdp-provider', content='other')
        built = packages.in_folder(self.made)
        self.assertEqual('1.0', built.version)
        self.assertEqual(
            {'octavia-xdp-node': packages.contents_of('some  usr/file'),
             'octavia-xdp-provider': packages.contents_of('other  usr/file')},
            built.contents)
        self.assertEqual(2, packages.index(built).count('Filename: ./'))

    def test_none(self):
        self.refused('no package octavia-xdp-node', 'make packages')
        self.make('octavia-xdp-host')
        self.refused('no package octavia-xdp-node')

    def test_several_versions(self):
        self.make('octavia-xdp-node')
        self.make('octavia-xdp-host', '1.1')
        self.refused('several versions', 'octavia-xdp-host 1.1')

    def test_one_twice(self):
        self.make('octavia-xdp-node')
        self.make('octavia-xdp-node', '1.1')
        self.refused('octavia-xdp-node twice', '1.0', '1.1')

    def test_no_package_at_all(self):
        (self.made / 'octavia-xdp-node.deb').write_text('none')
        self.refused('dpkg-deb failed')


class TestInstalled(base.TestCase):

    HAS = {'octavia-xdp-node': '1.0 aaaa', 'octavia-xdp-provider': '1.0 bbbb'}
    WANTED = packages.Packages(pathlib.Path('debs'), '1.0', {
        'octavia-xdp-node': 'aaaa', 'octavia-xdp-provider': 'bbbb'})

    def check(self, has, version='1.0', wanted=WANTED):
        packages.check(types.SimpleNamespace(name='lb'), has, version, wanted)

    def refused(self, *arguments):
        return str(self.assertRaises(errors.BenchError, self.check,
                                     *arguments))

    def test_what_is_under_test(self):
        self.check(self.HAS)
        self.check(self.HAS, '1.0', None)
        self.check(self.HAS, None, None)

    def test_no_node(self):
        self.assertIn('lb has no package octavia-xdp-node', self.refused({}))

    def test_another_version(self):
        self.assertIn('octavia-xdp-node 1.0 installed, and 1.1 is under test',
                      self.refused(self.HAS, '1.1', None))

    def test_another_build_of_the_version(self):
        said = self.refused({**self.HAS, 'octavia-xdp-provider': '1.0 cccc'})
        for part in 'octavia-xdp-provider 1.0', 'other files', 'changelog':
            self.assertIn(part, said)

    def test_what_a_machine_says(self):
        answers = {
            'dpkg-query': 'installed octavia-xdp-node 1.0\n'
                          'not-installed octavia-xdp-host \n'
                          'config-files octavia-xdp-member 0.9\n',
            'cat': 'b  usr/b\na  usr/a\n'}

        def run(words, check=True):
            return types.SimpleNamespace(stdout=answers[words[0]])
        self.assertEqual(
            {'octavia-xdp-node':
                '1.0 ' + packages.contents_of('a  usr/a\nb  usr/b')},
            packages.installed(types.SimpleNamespace(run=run)))
