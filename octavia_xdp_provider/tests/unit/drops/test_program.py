# SPDX-License-Identifier: Apache-2.0
"""How the program is compiled, and what is said if it is not."""

import os

import fixtures

from octavia_xdp_provider.drops import btf
from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import program
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.drops import btf_writer

NO_COMPILE = 'Failed to compile BPF module <text>'
DIAGNOSTIC = 'x.h:1:10: fatal error: \'asm/new.h\' file not found\n'


class FakeBcc:
    """Takes the program from those places alone that it is told."""

    __version__ = '0.99'

    def __init__(self, takes=(), says=DIAGNOSTIC, problem=NO_COMPILE):
        self.takes = takes
        self.says = says
        self.problem = problem
        self.asked = []

    def BPF(self, text, cflags):
        place = os.environ.get(program.SOURCE_VARIABLE)
        self.asked.append(place)
        os.write(2, self.says.encode())
        if place in self.takes:
            return text, cflags
        raise Exception(self.problem)


class ProgramTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.types = btf.Btf(btf_writer.kernel())
        self.events = self.useFixture(fixtures.TempDir()).path
        self.own = str(program.HEADERS)
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

    def test_definitions(self):
        os.makedirs(os.path.join(self.events, 'xdp', 'xdp_exception'))
        with open(os.path.join(self.events, 'xdp', 'xdp_exception',
                               'format'), 'w'):
            pass
        self.assertEqual(
            ['-DSKB_HEAD=64', '-DSKB_DATA=72', '-DSKB_NETWORK_HEADER=22',
             '-DSKB_DEV=8', '-DSKB_IIF=40', '-DDEV_IFINDEX=4',
             '-DDEV_NET=24', '-DNET_INUM=20', '-DHAVE_xdp_exception'],
            program.definitions(self.types, self.events))

    def test_every_macro_is_one_that_the_program_knows(self):
        text = program.TEXT.read_text()
        for name in [*program.OFFSETS,
                     *(f'HAVE_{one}' for one in program.TRACEPOINTS)]:
            self.assertIn(name, text)

    def test_another_kernel(self):
        writer = btf_writer.Writer()
        writer.add(btf_writer.STRUCT, 'sk_buff')
        self.types = btf.Btf(writer.finish())
        self.assertIn('sk_buff has no head', self.refused(FakeBcc()))

    def test_headers_of_its_own_first(self):
        bcc = FakeBcc(takes=[self.own])
        text, _options = self.load(bcc, headers=True)
        self.assertIn('TRACEPOINT_PROBE(skb, kfree_skb)', text)
        self.assertEqual([self.own], bcc.asked)
        self.assertEqual('before', os.environ[program.SOURCE_VARIABLE])

    def test_then_those_of_the_kernel(self):
        bcc = FakeBcc(takes=[None])
        self.load(bcc, headers=True)
        self.assertEqual([self.own, None], bcc.asked)

    def test_no_headers(self):
        bcc = FakeBcc()
        text = self.refused(bcc)
        self.assertIn('asm/new.h', text)
        self.assertIn('bcc 0.99', text)
        self.assertIn(f'install linux-headers-{os.uname().release}', text)
        self.assertEqual([self.own], bcc.asked)

    def test_headers_that_do_not_help(self):
        text = self.refused(FakeBcc(), headers=True)
        self.assertNotIn('linux-headers', text)
        self.assertIn('install a bcc that knows', text)

    def test_bcc_finds_none_at_all(self):
        self.assertIn('install linux-headers-', self.refused(FakeBcc(
            says='Unable to find kernel headers. Try rebuilding\n')))

    def test_the_kernel_refuses(self):
        # bcc calls a map that it cannot make a failure to compile, too.
        for says, problem in (
                ('', 'Failed to load BPF program: not permitted'),
                ('could not open bpf map: vips, error: not permitted\n',
                 NO_COMPILE)):
            bcc = FakeBcc(says=says, problem=problem)
            text = self.refused(bcc, headers=True)
            self.assertIn('not permitted', text)
            self.assertIn('lockdown', text)
            self.assertNotIn('headers', text)
            self.assertEqual([self.own], bcc.asked)

    def test_kernel_headers(self):
        root = self.useFixture(fixtures.TempDir()).path
        archive = os.path.join(root, 'kheaders')
        build = os.path.join(root, '{release}')

        def found():
            return program.kernel_headers('6.1', build, archive)

        self.assertFalse(found())
        # A link to what is not installed is all that a kernel brings.
        os.symlink('/nonexistent', os.path.join(root, '6.1'))
        self.assertFalse(found())
        with open(archive, 'w'):
            pass
        self.assertTrue(found())
