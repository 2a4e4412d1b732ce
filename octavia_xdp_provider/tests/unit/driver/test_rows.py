# SPDX-License-Identifier: Apache-2.0
"""Each row of the table of options has a request that tests it."""

from octavia_xdp_provider.driver import support
from octavia_xdp_provider.tests.e2e.support import rows
from octavia_xdp_provider.tests.unit import base


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
