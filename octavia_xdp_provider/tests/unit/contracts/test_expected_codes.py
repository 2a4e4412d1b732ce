# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.contracts import expected_codes
from octavia_xdp_provider.tests.unit import base


class TestExpectedCodes(base.TestCase):

    def test_codes_lists_and_ranges_give_ranges(self):
        for text, ranges in (('200', ((200, 200),)),
                             ('200,202', ((200, 200), (202, 202))),
                             ('200-204', ((200, 204),)),
                             ('200, 301-302', ((200, 200), (301, 302)))):
            self.assertEqual(ranges, expected_codes.parse(text))

    def test_malformed_codes_are_refused(self):
        for text in ('', 'abc', '204-200', '99', '200;201', '600'):
            self.assertRaises(ValueError, expected_codes.parse, text)
