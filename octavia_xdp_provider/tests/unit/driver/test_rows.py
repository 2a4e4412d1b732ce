# SPDX-License-Identifier: Apache-2.0
"""Each row of the table of options has a request that tests it, and each
accepted one an effect that is looked at."""

import ast
import functools
import pathlib

from octavia_xdp_provider.driver import support
from octavia_xdp_provider.tests.e2e.support import effects
from octavia_xdp_provider.tests.e2e.support import rows
from octavia_xdp_provider.tests.unit import base

END_TO_END = pathlib.Path(rows.__file__).parent.parent


@functools.cache
def _tests(folder):
    """Names of all methods, as module.class.method."""
    return {f'{path.stem}.{one.name}.{method.name}'
            for path in folder.glob('*/test_*.py')
            for one in ast.parse(path.read_text()).body
            if isinstance(one, ast.ClassDef)
            for method in one.body if isinstance(method, ast.FunctionDef)}


class TestRows(base.TestCase):

    def test_each_row_of_the_table_has_a_request(self):
        for kind, table in support.SUPPORT.items():
            self.assertEqual(set(table), set(rows.ROWS[kind]), kind)

    def test_what_is_refused_is_expected_to_be(self):
        for kind, table in support.SUPPORT.items():
            for row, rule in table.items():
                case = rows.ROWS[kind][row]
                if isinstance(rule, support.Refuse):
                    self.assertNotIsInstance(case, rows.Accepted, row)
                else:
                    self.assertNotIsInstance(case, rows.Refused, row)

    def test_each_accepted_row_has_an_effect_that_is_looked_at(self):
        for kind, table in rows.ROWS.items():
            self.assertEqual(
                {row for row, case in table.items()
                 if isinstance(case, rows.Accepted)},
                set(effects.EFFECTS[kind]), kind)

    def test_what_has_no_effect_is_not_looked_for(self):
        for kind, table in support.SUPPORT.items():
            for row, rule in table.items():
                if isinstance(rule, support.NoEffect):
                    self.assertIsInstance(effects.EFFECTS[kind][row],
                                          effects.Shown)

    def test_other_tests_that_prove_rows_are_there(self):
        for table in effects.EFFECTS.values():
            for effect in table.values():
                if isinstance(effect, effects.ProvedBy):
                    self.assertIn(effect.test, _tests(END_TO_END))
