# SPDX-License-Identifier: Apache-2.0
"""tools/budget.py and tools/sizes: what may grow no further."""

import pathlib
import re
import subprocess
import sys

import fixtures

from octavia_xdp_provider.tests.support import tools
from octavia_xdp_provider.tests.unit import base

ROOT = tools.ROOT
budget = tools.load_file('tools/budget.py')


class TestTypes(base.TestCase):

    def test_types_that_are_left_open_keep_to_their_budget(self):
        text = ''.join(
            path.read_text() for path
            in (ROOT / 'octavia_xdp_provider').rglob('*.py')
            if 'tests' not in path.parts)
        for name, pattern in (('any', r'^(?!from).*\bAny\b'),
                              ('ignore', r'# type: ignore\b')):
            places = len(re.findall(pattern, text, re.MULTILINE))
            self.assertLessEqual(places, budget.types()[name], name)


class TestFile(base.TestCase):

    def setUp(self):
        super().setUp()
        self.file = pathlib.Path(
            self.useFixture(fixtures.TempDir()).join('budget.toml'))

    def test_sections_are_read_and_others_left_alone(self):
        self.file.write_text('[lines]\n"a/b" = 7\n"." = 0\n'
                             '[seconds]\npackets = 12.5\nlint = 3\n')

        self.assertEqual({'a/b': 7, '.': 0}, budget.lines(self.file))
        self.assertEqual({'packets': 12.5, 'lint': 3},
                         budget.seconds(self.file))

    def test_invalid_budget_is_refused(self):
        for text in ('"a" = "7"', '"a" = 7.5', '"a" = -1'):
            self.file.write_text(f'[lines]\n{text}\n')
            self.assertRaises(ValueError, budget.lines, self.file)

    def test_numbers_are_written_and_all_else_stays(self):
        text = '# Why.\n[lines]\n"a/b" = {}  # because\n"a" = 1\n[seconds]\n'
        self.file.write_text(text.format(7))

        budget.write_lines({'a/b': 40}, self.file)

        self.assertEqual(text.format(40), self.file.read_text())
        self.assertRaises(ValueError, budget.write_lines, {'b': 1}, self.file)

    def test_budgets_name_existing_rooms_and_parts(self):
        script = (ROOT / 'tools/test-part').read_text()
        for room in budget.lines():
            self.assertTrue((ROOT / room).is_dir(), room)
        for part in budget.seconds():
            self.assertTrue(part.startswith('kernel-') or re.search(
                rf'^part_{re.escape(part)}\(\)', script, re.MULTILINE), part)


class TestSizes(base.TestCase):
    """tools/sizes in a tree of its own."""

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        subprocess.run(('git', 'init', '--quiet', self.root), check=True)
        (self.root / 'tools').mkdir()
        for name in ('tools/sizes', 'tools/budget.py'):
            (self.root / name).write_text(
                (ROOT / name).read_text())
        # The tools that are copied here must not count.
        (self.root / '.gitignore').write_text('tools/\n.gitignore\n')

    def have(self, **lines):
        for name, count in lines.items():
            self.write(f'{name}/file.py', 'x\n' * count)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def allow(self, **lines):
        self.write('tools/budget.toml', '[lines]\n"." = 0\n' + ''.join(
            f'"{room}" = {count}\n' for room, count in lines.items()))

    def allowed(self):
        return budget.lines(self.root / 'tools/budget.toml')

    def sizes(self, *arguments):
        """Return the exit status and lines of output."""
        done = subprocess.run(
            (sys.executable, self.root / 'tools/sizes', *arguments),
            capture_output=True, text=True, check=False)
        self.assertEqual('', done.stderr)
        return done.returncode, done.stdout.splitlines()

    def assert_total(self, total, tests=0):
        self.assertEqual((0, [
            f'total: {total} lines, of them {tests} of tests; '
            f'the budgets have {total} (+0)']), self.sizes())

    def test_lines_within_the_tolerance_are_shown_and_others_fail(self):
        self.have(a=110, b=50, c=3030)
        self.allow(a=100, b=90, c=3000)
        status, output = self.sizes()
        self.assertEqual(0, status)
        self.assertEqual(['a: 110 lines, 10 more than its budget',
                          'b: 50 lines, 40 fewer than its budget',
                          'c: 3030 lines, 30 more than its budget'],
                         output[:3])
        self.have(a=121)
        status, output = self.sizes()
        self.assertEqual(
            (1, 'a: 121 lines, 21 more than its budget: too many'),
            (status, output[0]))

    def test_file_without_a_room_counts_for_the_root(self):
        self.write('new/file.py', 'x\n' * 30)
        self.allow()
        status, output = self.sizes()
        self.assertEqual(1, status)
        self.assertIn('.: 30 lines', output[0])

    def test_rooms_within_a_room_count_apart(self):
        self.have(**{'a': 10, 'a/deep': 20, 'a/tests': 40, 'a/tests/x': 1})
        self.allow(**{'a': 30, 'a/tests': 41})
        self.assert_total(71, 41)

    def test_tests_in_files_of_rust_are_tests(self):
        self.write('hc-agent/src/a.rs',
                   'x\ny\n#[cfg(test)]\nmod tests {\nz\n}\n')
        self.write('hc-agent/src/a_tests.rs', 'x\n')
        self.write('hc-agent/src/b.rs', '#[cfg(test)]\nmod other;\n')
        self.write('hc-agent/tests/c.rs', 'x\n')
        self.allow(**{'hc-agent': 4, 'hc-agent/tests': 6})
        self.assert_total(10, 6)

    def test_prose_and_generated_files_do_not_count(self):
        for name in ('README.rst', 'a/README.rst', 'doc/source/x/y.inc',
                     'releasenotes/notes/x.yaml', 'a/Cargo.lock',
                     'constraints.txt', 'a/constraints.txt'):
            self.write(name, 'x\n' * 30)
        self.allow(a=0)
        self.assert_total(0)

    def test_write_lowers_budgets_and_raises_only_for_a_move(self):
        for lines, status, allowed in (
                ({'a': 60, 'b': 100}, 0, {'a': 60, 'b': 100}),
                ({'a': 40, 'b': 150}, 0, {'a': 40, 'b': 150}),
                ({'a': 90, 'b': 150}, 1, {'a': 90, 'b': 100})):
            with self.subTest(lines):
                self.have(**lines)
                self.allow(a=100, b=100)
                self.assertEqual(status, self.sizes('--write')[0])
                self.assertEqual({'.': 0, **allowed}, self.allowed())
