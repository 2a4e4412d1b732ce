# SPDX-License-Identifier: Apache-2.0
"""tools/words: which words it refuses."""

import contextlib
import io
import pathlib

import fixtures

from octavia_xdp_provider.tests.support import tools
from octavia_xdp_provider.tests.unit import base

LIST = '''\
[phrases]
'\\bby and by\\b' = 'later'
[renamed]
old_name = 'new_name'
[names]
one = 1
'''


words = tools.load_file('tools/words')


class TestWords(base.TestCase):

    def check(self, given=(), **texts):
        """Return the exit code and the output for files with these texts."""
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (root / 'tools').mkdir()
        (root / words.LIST).write_text(LIST)
        listed = []
        for name, text in texts.items():
            listed.append(name.replace('__', '.'))
            (root / listed[-1]).write_text(text)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = words.main(list(given), root, [words.LIST, *listed])
        return status, output.getvalue()

    def test_phrase_is_refused_whatever_its_case(self):
        self.assertEqual(
            (1, 'a.rst:2: "By and by": write later\n'),
            self.check(a__rst='A node\nBy and by leaves.\n'))

    def test_earlier_name_is_refused_and_longer_names_are_not(self):
        self.assertEqual(
            (1, 'a.py:1: "old_name": write new_name\n'),
            self.check(a__py='old_name = very_old_name = old_names = 0\n'))

    def test_bindings_of_a_variable_are_counted_in_all_files(self):
        self.assertEqual((0, ''), self.check(a__py='one = 0\nprint(one)\n'))
        status, output = self.check(a__py='one = 0\n',
                                    b__py='def f(one):\n    return one\n')
        self.assertEqual(1, status)
        self.assertIn('2 variables are called "one"', output)

    def test_variables_are_not_counted_in_a_part_of_the_files(self):
        self.assertEqual((0, ''), self.check(
            ['a.py'], a__py='one = 0\nfor one in ():\n    pass\n'))

    def test_other_files_are_left_alone(self):
        self.assertEqual((0, ''), self.check(a__png='by and by'))
