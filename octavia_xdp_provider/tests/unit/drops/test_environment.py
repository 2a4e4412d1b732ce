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

    def test_package_of_missing_bcc_is_named(self):
        self.assertIn('python3-bpfcc',
                      self.missing(self.import_from, self.folder()))

    def test_bcc_without_its_library_is_explained(self):
        place = self.folder(**{
            'bcc_IN___init__.py': 'raise OSError("libbcc.so.0: no such")'})
        text = self.missing(self.import_from, place)
        self.assertIn('libbcc.so.0: no such', text)
        self.assertIn('libbpfcc', text)

    def test_another_package_named_bcc_is_refused(self):
        place = self.folder(**{'bcc_IN___init__.py': ''})
        self.assertIn('another package', self.missing(self.import_from,
                                                      place))

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

    def test_command_that_mounts_tracefs_is_named(self):
        empty = self.folder()
        self.assertIn(f'mount -t tracefs tracefs {empty}',
                      self.missing(environment.tracepoints, (empty,)))

    def test_missing_tracepoint_is_named(self):
        mounted = self.folder(events_IN_sched_IN_enable='0')
        self.assertIn('skb:kfree_skb', self.missing(environment.tracepoints,
                                                    (mounted,)))

    def test_kernel_without_types_is_explained(self):
        self.useFixture(fixtures.MockPatchObject(
            libbpf, 'Btf', side_effect=libbpf.BtfError('libbpf finds none')))
        text = self.missing(environment.types)
        self.assertIn('CONFIG_DEBUG_INFO_BTF', text)
        self.assertIn('libbpf finds none', text)

    def test_missing_libbpf_is_explained(self):
        self.useFixture(fixtures.MockPatchObject(
            libbpf, 'library', side_effect=OSError('libbpf.so.1: no such')))
        text = self.missing(environment.types)
        self.assertIn('libbpf.so.1: no such', text)
        self.assertIn('install the package libbpf1', text)

    def test_all_missing_requirements_are_named_at_once(self):
        def first():
            raise environment.Missing('one')

        def second():
            raise environment.Missing('two')

        self.assertEqual(['one', 'two'], environment.all_missing(
            first, lambda: None, second))
