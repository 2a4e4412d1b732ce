# SPDX-License-Identifier: Apache-2.0
"""Each row of the table of options has a request that tests it, and each
accepted row has an effect that is checked."""

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
    """Return the names of all methods, as module.class.method."""
    return {f'{path.stem}.{node.name}.{method.name}'
            for path in folder.glob('*/test_*.py')
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef)
            for method in node.body if isinstance(method, ast.FunctionDef)}


class TestRows(base.TestCase):

    def test_each_row_has_a_request(self):
        for kind, table in support.SUPPORT.items():
            self.assertEqual(set(table), set(rows.ROWS[kind]), kind)

    def test_refusals_are_expected(self):
        for kind, table in support.SUPPORT.items():
            for row, rule in table.items():
                case = rows.ROWS[kind][row]
                if isinstance(rule, support.Refuse):
                    self.assertNotIsInstance(case, rows.Accepted, row)
                else:
                    self.assertNotIsInstance(case, rows.Refused, row)

    def test_each_accepted_row_has_a_checked_effect(self):
        for kind, table in rows.ROWS.items():
            self.assertEqual(
                {row for row, case in table.items()
                 if isinstance(case, rows.Accepted)},
                set(effects.EFFECTS[kind]), kind)

    def test_proving_tests_exist(self):
        for table in effects.EFFECTS.values():
            for effect in table.values():
                if isinstance(effect, effects.ProvedBy):
                    self.assertIn(effect.test, _tests(END_TO_END))
