# SPDX-License-Identifier: Apache-2.0

import pathlib

import fixtures

from octavia_xdp_provider.proxy.agent import records
from octavia_xdp_provider.tests.unit import base

NUMBERS = range(70000, 70003)


class TestRecords(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.records = self.load()

    def load(self, served=(), numbers=NUMBERS):
        return records.Records(str(self.directory), numbers, dict(served))

    def numbers(self, *keys, kept=None):
        return [(kept or self.records).of(key).number for key in keys]

    def test_each_load_balancer_keeps_a_number_of_its_own(self):
        given = self.numbers('a', 'b', 'a', 'c')
        self.assertEqual(given[0], given[2])
        self.assertEqual(set(NUMBERS), set(given))
        self.assertEqual(given, self.numbers('a', 'b', 'a', 'c',
                                             kept=self.load()))
        self.assertRaisesRegex(records.NoNumber, 'number_max',
                               self.records.of, 'd')

    def test_removed_number_is_given_again_after_all_others(self):
        first, = self.numbers('a')
        self.records.remove('a')
        given = self.numbers('b', 'c', 'd')
        self.assertEqual(first, given[2])
        self.assertNotIn(first, given[:2])

    def test_lost_records_follow_from_what_the_launcher_was_told(self):
        served = {'a': 70001, 'b': 70002}
        kept = self.load(served)
        self.assertEqual([70001, 70002, 70000],
                         self.numbers('a', 'b', 'c', kept=kept))
        # They are on disk before anything else happens.
        self.assertEqual(70001, self.load().of('a').number)

    def test_damaged_record_costs_one_number(self):
        _first, other = self.numbers('a', 'b')
        (self.directory / 'a.json').write_text('{')
        with self.assertLogs(records.LOG.logger, 'ERROR') as logged:
            kept = self.load()
        self.assertIn('a.json', logged.output[0])
        self.assertEqual({'b'}, kept.ids())
        self.assertEqual(other, kept.of('b').number)
        self.assertNotEqual(other, kept.of('a').number)

    def test_two_records_with_one_number_are_two_load_balancers(self):
        self.numbers('a')
        (self.directory / 'b.json').write_bytes(
            (self.directory / 'a.json').read_bytes())
        kept = self.load()
        self.assertEqual(2, len(set(self.numbers('a', 'b', kept=kept))))

    def test_number_outside_of_the_options_is_replaced(self):
        self.numbers('a')
        self.assertEqual([80000], self.numbers('a', kept=self.load(
            numbers=range(80000, 80001))))

    def test_members_that_are_down_are_kept(self):
        self.records.keep_down('a', {'m2', 'm1'})
        self.assertEqual(('m1', 'm2'), self.load().of('a').down)
