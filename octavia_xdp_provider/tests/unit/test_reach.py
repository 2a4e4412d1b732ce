# SPDX-License-Identifier: Apache-2.0
"""tools/suite/reach.py and changed.py: what a changed file reaches."""

import pathlib

import fixtures

from octavia_xdp_provider.tests.support import tools
from octavia_xdp_provider.tests.unit import base

changed = tools.load('changed')
kinds = tools.load('kinds')
plan = tools.load('plan')
reach = tools.load('reach')

UNIT = 'octavia_xdp_provider/tests/unit/'
NODE = 'octavia_xdp_provider/tests/functional/node/'


class TestThisTree(base.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = reach.Tree()

    def reached(self, *paths):
        return set(self.tree.distances(paths))

    def test_each_file_is_mapped(self):
        self.assertEqual([], self.tree.unmapped(self.tree.files))

    def test_patterns_of_the_table_have_files(self):
        # A demonstration, and what makes roots, may come later than a table.
        table = self.tree.table
        patterns = {*table['uses'], *table['read_by_people']['files']}
        for group in 'uses', 'kinds':
            patterns.update(*table[group].values())
        self.assertEqual([], sorted(
            pattern for pattern in patterns
            if not reach.matching(self.tree.files, [pattern])))

    def test_table_has_each_long_kind_and_no_other(self):
        self.assertEqual(sorted(kinds.LONG_NAMES),
                         sorted(self.tree.table['kinds']))

    def test_import_reaches_tests_through_other_modules(self):
        self.assertIn(UNIT + 'driver/test_provider.py', self.reached(
            'octavia_xdp_provider/contracts/errors.py'))

    def test_source_of_the_library_reaches_tests_in_c_and_python(self):
        reached = self.reached('datapath/lib/nat/pools.c')
        self.assertIn('datapath/tests/test_nat_ports.c', reached)
        self.assertIn(NODE + 'test_nat_pools.py', reached)

    def test_header_of_a_program_reaches_tests_of_packets(self):
        self.assertIn('octavia_xdp_provider/tests/packets/test_icmp.py',
                      self.reached('datapath/bpf/checksum.h'))

    def test_page_reaches_the_tests_of_documents(self):
        self.assertIn(UNIT + 'test_documents.py', self.reached(
            'doc/source/admin/upgrade.rst'))

    def test_datapath_can_break_kernels(self):
        self.assertIn('kernels', self.tree.kinds(
            ['datapath/lib/nat/pools.c']))
        self.assertNotIn('kernels', self.tree.kinds(['README.rst']))


class Trees(base.TestCase):
    """Trees of a few files, with the table that a test gives."""

    TABLE = '[uses]\n{uses}\n[kinds]\n{kinds}\n[read_by_people]\nfiles = []\n'

    def tree(self, uses='', kinds='', **texts):
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        texts = {name.replace('__', '/') + '.py': text
                 for name, text in texts.items()}
        texts[reach.TABLE] = self.TABLE.format(uses=uses, kinds=kinds)
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return reach.Tree(root, list(texts))


class TestUsers(Trees):

    def test_each_way_to_import_is_seen(self):
        tree = self.tree(
            package__used='', package__a='from package import used\n',
            package__b='    import package.used\n',
            package__c='from package.used import (\n    name)\n',
            package__d="RUN = ['-m', 'package.used']\n",
            package__e="mock.patch('package.used.name')\n",
            package__other='import package.users\n')
        self.assertEqual({f'package/{name}.py' for name in 'abcde'},
                         tree.users['package/used.py'])

    def test_path_in_a_string_is_used(self):
        tree = self.tree(a__page='', b="TEXT = ROOT / 'a/page.py'\n")
        self.assertEqual({'b.py'}, tree.users['a/page.py'])

    def test_table_says_what_nothing_else_shows(self):
        tree = self.tree(uses='"b*.py" = ["a/*"]', a__page='', b='', c='')
        self.assertEqual({'b.py'}, tree.users['a/page.py'])

    def test_distance_is_the_least_number_of_steps(self):
        tree = self.tree(a='', b='import a\n', c='import a\nimport b\n',
                         d='import c\n')
        self.assertEqual({'a.py': 0, 'b.py': 1, 'c.py': 1, 'd.py': 2},
                         tree.distances(['a.py']))


class TestSelection(Trees):

    def select(self, files, seconds=None, **texts):
        tree = self.tree(**{'product': '', **texts})
        return changed.select(tree, files, seconds=seconds)

    def unit(self, name):
        return f'octavia_xdp_provider__tests__unit__{name}'

    def node(self, name):
        return f'octavia_xdp_provider__tests__functional__node__{name}'

    def test_unit_tests_that_a_change_reaches_run(self):
        selection = self.select(['product.py'], **{
            self.unit('test_a'): 'import product\n', self.unit('test_b'): ''})
        reached = selection.parts['unit-python']
        self.assertIn('octavia_xdp_provider.tests.unit.test_a', reached)
        self.assertNotIn('octavia_xdp_provider.tests.unit.test_b', reached)
        self.assertEqual(['product.py'], selection.parts['lint-changed'])

    def test_file_that_nothing_maps_means_everything(self):
        selection = self.select(['product.py'])
        self.assertEqual(['product.py'], selection.unmapped)
        self.assertLessEqual(
            {part.name for part in plan.TESTS if part.kind == 'unit'},
            set(selection.parts))
        self.assertEqual(list(kinds.LONG_NAMES), selection.kinds)

    def test_functional_tests_run_from_the_nearest_on(self):
        names = [f'octavia_xdp_provider.tests.functional.node.test_{name}'
                 for name in 'abc']
        selection = self.select(
            ['product.py'], dict.fromkeys(names, changed.FUNCTIONAL_S / 2), **{
                self.node('test_c'): 'import product\n',
                self.node('test_a'): 'import between\n',
                self.node('test_b'): 'import product\n',
                'between': 'import product\n'})
        self.assertEqual([names[1], names[2]],
                         selection.parts['functional-node'])
        self.assertEqual([names[0]], selection.left)

    def test_test_that_changed_runs_however_long_it_takes(self):
        name = 'octavia_xdp_provider.tests.functional.node.test_a'
        selection = self.select(
            [name.replace('.', '/') + '.py'],
            {name: 10 * changed.FUNCTIONAL_S}, **{self.node('test_a'): ''})
        self.assertEqual([name], selection.parts['functional-node'])

    def test_end_to_end_tests_run_only_if_they_or_their_support_changed(self):
        tenant = 'octavia_xdp_provider/tests/e2e/tenant/test_a.py'
        support = 'octavia_xdp_provider/tests/e2e/support/base.py'
        texts = {'octavia_xdp_provider__tests__e2e__tenant__test_a':
                 'from octavia_xdp_provider.tests.e2e.support import base\n',
                 'octavia_xdp_provider__tests__e2e__support__base':
                 'import product\n'}
        for files, runs in ((['product.py'], False), ([support], True),
                            ([tenant], True)):
            self.assertEqual(
                runs, 'e2e-tenant' in self.select(files, **texts).parts,
                files)
