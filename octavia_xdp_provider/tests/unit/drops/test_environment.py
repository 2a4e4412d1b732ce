# SPDX-License-Identifier: Apache-2.0
"""Each missing requirement is explained."""

import os
import sys
from unittest import mock

import fixtures

from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import libbpf
from octavia_xdp_provider.tests.unit import base

ALL = (1 << 41) - 1


class EnvironmentTest(base.TestCase):

    def missing(self, function, *arguments):
        return str(self.assertRaises(environment.Missing, function,
                                     *arguments))

    def folder(self, **files):
        """Create a directory with files; _IN_ in a name stands for /."""
        root = self.useFixture(fixtures.TempDir()).path
        for name, text in files.items():
            path = os.path.join(root, name.replace('_IN_', '/'))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w') as file:
                file.write(text)
        return root

    def import_from(self, place):
        modules = {name: module for name, module in sys.modules.items()
                   if name != 'bcc'}
        with mock.patch.object(sys, 'path', []), \
                mock.patch.dict(sys.modules, modules, clear=True):
            before = list(sys.path)
            try:
                return environment.bcc((place,))
            finally:
                self.assertEqual(before, sys.path)

    def test_bcc_is_found_in_the_packages_of_the_system(self):
        place = self.folder(**{'bcc_IN___init__.py': 'BPF = "it"'})
        self.assertEqual('it', self.import_from(place).BPF)

    def test_missing_or_unusable_bcc_is_explained(self):
        module = 'bcc_IN___init__.py'
        for files, words in (
                ({}, ['python3-bpfcc']),
                ({module: 'raise OSError("libbcc.so.0: no such")'},
                 ['libbcc.so.0: no such', 'libbpfcc']),
                ({module: ''}, ['another package'])):
            text = self.missing(self.import_from, self.folder(**files))
            for word in words:
                self.assertIn(word, text)

    def status(self, capabilities):
        return os.path.join(self.folder(
            status=f'Name:\tx\nCapEff:\t{capabilities:016x}\n'), 'status')

    def test_root_or_two_capabilities_suffice(self):
        environment.privileges(self.status(ALL))
        environment.privileges(self.status(1 << 21))
        environment.privileges(self.status(1 << 38 | 1 << 39))

    def test_missing_capabilities_are_named(self):
        self.assertIn('CAP_BPF and CAP_PERFMON',
                      self.missing(environment.privileges, self.status(0)))
        text = self.missing(environment.privileges, self.status(1 << 39))
        self.assertIn('CAP_PERFMON', text)
        self.assertNotIn('CAP_BPF', text)

    def test_tracepoints_are_found_where_tracefs_is_mounted(self):
        empty = self.folder()
        mounted = self.folder(events_IN_skb_IN_kfree_skb_IN_format='x')
        self.assertEqual(f'{mounted}/events',
                         environment.tracepoints((empty, mounted)))

    def test_missing_tracefs_or_tracepoint_is_named(self):
        empty = self.folder()
        mounted = self.folder(events_IN_sched_IN_enable='0')
        for place, word in ((empty, f'mount -t tracefs tracefs {empty}'),
                            (mounted, 'skb:kfree_skb')):
            self.assertIn(word, self.missing(environment.tracepoints,
                                             (place,)))

    def test_missing_types_or_libbpf_are_explained(self):
        for name, error, word in (
                ('Btf', libbpf.BtfError('libbpf finds none'),
                 'CONFIG_DEBUG_INFO_BTF'),
                ('library', OSError('libbpf.so.1: no such'),
                 'install the package libbpf1')):
            with fixtures.MockPatchObject(libbpf, name, side_effect=error):
                text = self.missing(environment.types)
            self.assertIn(word, text)
            self.assertIn(str(error), text)

    def test_all_missing_requirements_are_named_at_once(self):
        def first():
            raise environment.Missing('one')

        def second():
            raise environment.Missing('two')

        self.assertEqual(['one', 'two'], environment.all_missing(
            first, lambda: None, second))
