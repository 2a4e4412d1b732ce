# SPDX-License-Identifier: Apache-2.0

import json

from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.node import types
from octavia_xdp_provider.tests.unit import base


class TestOutput(base.TestCase):

    def test_numbers_of_a_table_are_right_aligned(self):
        text = output.table(('NAME', 'NUMBER', 'SHARE', 'YES'), [
            ('a', 5, 1.234, True), ('longer', 12345, None, False)])
        self.assertEqual(
            ['NAME    NUMBER  SHARE  YES',
             'a            5   1.23  yes',
             'longer   12345      -  no'], text.splitlines())

    def test_empty_table_has_its_headers(self):
        self.assertEqual('A  B', output.table(('A', 'B'), []))

    def test_short_numbers_have_three_digits_and_a_unit(self):
        for number, text in (
                (0, '0'), (7, '7'), (0.25, '0.25'), (12.5, '12.5'),
                (999, '999'), (1000, '1.00k'), (1234, '1.23k'),
                (12345, '12.3k'), (999499, '999k'), (999500, '1.00M'),
                (98765432, '98.8M'), (5 * 10 ** 18, '5.00E'),
                (10 ** 22, '10000E')):
            self.assertEqual(text, output.short(number), number)

    def test_line_names_the_fields_of_tuples(self):
        self.assertEqual('{"rows": [{"packets": 1, "bytes": 2, "flows": 3}]}',
                         output.line({'rows': [types.Counters(1, 2, 3)]}))

    def test_dump_names_fields_and_writes_bytes_as_hex(self):
        value = output.dump([types.Counters(1, 2, 3), {1: b'\x01\xff'},
                             (None, True), types.Outcome.DROP_RATE])
        self.assertEqual(
            [{'packets': 1, 'bytes': 2, 'flows': 3}, {'1': '01ff'},
             [None, True], 13], json.loads(value))
