# SPDX-License-Identifier: Apache-2.0
"""datapath/tests/arrows: what it fails for, and where its order stands."""

import os
import pathlib
import re
import subprocess
import sys

import fixtures

from octavia_xdp_provider.tests.support import tools
from octavia_xdp_provider.tests.unit import base

ROOT = tools.ROOT
TOOL = ROOT / 'datapath/tests/arrows'
CLANG = 'clang-19'


arrows = tools.load_file(TOOL)


class TestArrows(base.TestCase):
    """Trees of a few files, with folders that the order has."""

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def arrows(self, **files):
        """Exit status and lines, for texts by paths without suffixes."""
        for name, text in files.items():
            self.write(f'{name}.h', '')
            self.write(f'{name}.c', f'#include "{name}.h"\n{text}\n')
        done = subprocess.run(
            (sys.executable, TOOL, 'build'), cwd=self.root, check=False,
            capture_output=True, text=True, env=os.environ | {
                'CLANG': CLANG, 'LIB_CFLAGS': '-iquote .',
                'BPF_CFLAGS': '-iquote .'})
        self.assertEqual('', done.stderr)
        return done.returncode, done.stdout.splitlines()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self, name, text):
        self.write(f'{name}.c', text)
        compiled = self.root / 'build' / f'{name}.o'
        compiled.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run((CLANG, '-c', f'{name}.c', '-o', compiled),
                       cwd=self.root, check=True)

    def test_arrows_of_the_order_pass(self):
        self.write('build/forward.skel.h', '#include "gone.h"\n')
        status, output = self.arrows(**{
            'lib/error': '', 'lib/node/open': '#include "lib/error.h"',
            'tests/test_open': '#include "lib/node/open.h"'})

        self.assertEqual((0, 1), (status, len(output)), output)

    def test_include_against_the_order_fails(self):
        for name, problem in (
                ('lib/node/open', 'lib may not use lib/node'),
                ('tests/support/harness', 'lib may not use tests/support')):
            self.assertEqual(
                (1, [f'lib/error includes {name}: {problem}']), self.arrows(
                    **{'lib/error': f'#include "{name}.h"', name: ''}))

    def test_call_against_the_order_fails(self):
        self.build('lib/error', 'void open_node(void);\n'
                                'void fail(void) { open_node(); }\n')
        self.build('lib/node/open', 'void open_node(void) {}\n')

        self.assertEqual((1, [
            'lib/error calls open_node() of lib/node/open: '
            'lib may not use lib/node']), self.arrows())

    def test_circle_fails_also_within_a_folder(self):
        self.assertEqual((1, [
            'circle: bpf/forward/block, bpf/forward/count, '
            'bpf/forward/parse']), self.arrows(**{
                'bpf/forward/block': '#include "bpf/forward/count.h"',
                'bpf/forward/count': '#include "bpf/forward/parse.h"',
                'bpf/forward/parse': '#include "bpf/forward/block.h"'}))

    def test_folder_that_is_in_no_list_fails(self):
        for name in ('lib/gone/open', 'bpf/forward/nat/gone/open', 'open',
                     'tests/gone/open'):
            folder = str(pathlib.PurePath(name).parent)
            self.write(f'{name}.h', '')
            status, output = self.arrows()
            self.assertEqual(1, status, name)
            self.assertIn(f'{folder} has sources and is in no list',
                          output[-1])
            (self.root / f'{name}.h').unlink()


class TestOrder(base.TestCase):

    def test_each_folder_uses_those_before_it(self):
        before = set()
        for folder, used in (arrows.ORDER | arrows.OUTSIDE).items():
            self.assertLessEqual(used, before, folder)
            before.add(folder)

    def test_folders_that_are_listed_have_sources(self):
        for folder in arrows.ALLOWED:
            self.assertTrue(
                any((ROOT / 'datapath' / folder).glob('*.[ch]')), folder)

    def test_page_lists_the_librarys_folders_in_this_order(self):
        page = (ROOT / 'doc/source/contributor/architecture.rst').read_text()
        table = page[page.index('* - In ``datapath/lib``'):]
        table = table[:table.index('\n\n')]
        rows = re.findall(r'\* - (?:``(\w+)``|itself)\n', table)

        self.assertEqual(
            [folder.removeprefix('lib').removeprefix('/')
             for folder in arrows.ORDER if folder.partition('/')[0] == 'lib'],
            rows)
