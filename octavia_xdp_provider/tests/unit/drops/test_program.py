# SPDX-License-Identifier: Apache-2.0
"""Compilation of the program, and errors if it fails."""

import os
import pathlib

import fixtures

from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import libbpf
from octavia_xdp_provider.drops import program
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.drops import support

NO_COMPILE = 'Failed to compile BPF module <text>'
DIAGNOSTIC = 'x.h:1:10: fatal error: \'asm/new.h\' file not found\n'


OWN, KERNELS = 'own', 'kernel\'s'  # headers


class FakeBcc:
    """Compiles the program with the headers in `takes` only."""

    __version__ = '0.99'

    def __init__(self, takes=(), says=DIAGNOSTIC, problem=NO_COMPILE):
        self.takes = takes
        self.says = says
        self.problem = problem
        self.asked = []

    def BPF(self, text, cflags):
        place = os.environ.get(program.SOURCE_VARIABLE)
        headers = KERNELS
        if place is not None:
            self.included = {
                str(path.relative_to(f'{place}/include')): path.read_text()
                for path in pathlib.Path(place).rglob('*.h')}
            headers = OWN
        self.asked.append(headers)
        os.write(2, self.says.encode())
        if headers in self.takes:
            return text, cflags
        raise Exception(self.problem)


class ProgramTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.file = self.useFixture(fixtures.TempDir()).join('btf')
        self.types = libbpf.Btf(support.kernel().write(self.file))
        self.events = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.EnvironmentVariable(
            program.SOURCE_VARIABLE, 'before'))

    def load(self, bcc, headers=False):
        self.useFixture(fixtures.MockPatchObject(
            program, 'kernel_headers', lambda release: headers))
        return program.load(bcc, self.types, self.events)

    def refused(self, *arguments, **more):
        error = self.assertRaises(environment.Missing, self.load, *arguments,
                                  **more)
        self.assertEqual('before', os.environ[program.SOURCE_VARIABLE])
        return str(error)

    def test_options_have_offsets_sizes_and_tracepoints_of_kernel(self):
        os.makedirs(os.path.join(self.events, 'xdp', 'xdp_exception'))
        with open(os.path.join(self.events, 'xdp', 'xdp_exception',
                               'format'), 'w'):
            pass
        self.assertEqual(
            ['-DSKB_HEAD=64', '-DSKB_DATA=72', '-DSKB_NETWORK_HEADER=22',
             '-DSKB_DEV=8', '-DSKB_IIF=40', '-DDEV_IFINDEX=4',
             '-DDEV_NET=24', '-DNET_INUM=20', '-DVIPS_MAX=65536',
             '-DROWS_MAX=16384', '-DEVENT_xdp_exception=0'],
            program.definitions(self.types, self.events))

    def test_program_uses_every_macro(self):
        text = program.TEXT.read_text()
        for name in [*program.OFFSETS,
                     *(f'EVENT_{name}' for name in program.EVENTS), 'VIPS_MAX',
                     'ROWS_MAX']:
            self.assertIn(name, text)

    def test_member_that_the_kernel_lacks_is_named(self):
        writer = support.Writer()
        writer.composite('struct', 'sk_buff', 0)
        self.types = libbpf.Btf(writer.write(self.file))
        self.assertIn('sk_buff has no head', self.refused(FakeBcc()))

    def test_own_headers_come_first(self):
        bcc = FakeBcc(takes=[OWN])
        text, _options = self.load(bcc, headers=True)
        self.assertIn('TRACEPOINT_PROBE(skb, kfree_skb)', text)
        self.assertEqual([OWN], bcc.asked)
        self.assertEqual('before', os.environ[program.SOURCE_VARIABLE])
        self.assertIn('typedef __u8 u8;',
                      bcc.included.pop(program.FIRST_HEADER))
        self.assertEqual(dict.fromkeys(program.EMPTY_HEADERS, ''),
                         bcc.included)

    def test_headers_of_the_kernel_come_second(self):
        bcc = FakeBcc(takes=[KERNELS])
        self.load(bcc, headers=True)
        self.assertEqual([OWN, KERNELS], bcc.asked)

    def test_package_of_missing_headers_is_named(self):
        bcc = FakeBcc()
        text = self.refused(bcc)
        self.assertIn('asm/new.h', text)
        self.assertIn('bcc 0.99', text)
        self.assertIn(f'install linux-headers-{os.uname().release}', text)
        self.assertEqual([OWN], bcc.asked)

    def test_newer_bcc_is_advised_if_no_headers_help(self):
        text = self.refused(FakeBcc(), headers=True)
        self.assertNotIn('linux-headers', text)
        self.assertIn('install a bcc that supports', text)

    def test_package_is_named_if_bcc_finds_no_headers(self):
        self.assertIn('install linux-headers-', self.refused(FakeBcc(
            says='Unable to find kernel headers. Try rebuilding\n')))

    def test_refusal_by_kernel_is_not_taken_for_missing_headers(self):
        # bcc also reports a map that it cannot create as a compile error.
        for says, problem in (
                ('', 'Failed to load BPF program: not permitted'),
                ('could not open bpf map: vips, error: not permitted\n',
                 NO_COMPILE)):
            bcc = FakeBcc(says=says, problem=problem)
            text = self.refused(bcc, headers=True)
            self.assertIn('not permitted', text)
            self.assertIn('lockdown', text)
            self.assertNotIn('headers', text)
            self.assertEqual([OWN], bcc.asked)

    def test_kernel_headers_are_found_installed_or_as_an_archive(self):
        root = self.useFixture(fixtures.TempDir()).path
        archive = os.path.join(root, 'kheaders')
        build = os.path.join(root, '{release}')

        def has_headers():
            return program.kernel_headers('6.1', build, archive)

        self.assertFalse(has_headers())
        # The kernel's package has only this link, to another package's files.
        os.symlink('/nonexistent', os.path.join(root, '6.1'))
        self.assertFalse(has_headers())
        with open(archive, 'w'):
            pass
        self.assertTrue(has_headers())
