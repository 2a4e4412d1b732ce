# SPDX-License-Identifier: Apache-2.0
import pathlib
import random

import fixtures

from bench import errors
from bench.results import comparison
from bench.results import drift
from bench.results import select
from bench.results import store
from bench.results import verdict
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench import results


def repeated(count, spread=0.01, seed=1, **values):
    """Runs of one commit, each as a whole a little faster or slower."""
    source = random.Random(seed)
    for number in range(count):
        speed = 1e6 * source.lognormvariate(0, spread)
        yield results.run(
            results.case(samples=[speed * source.lognormvariate(0, 0.001)
                                  for _ in range(9)]),
            id=number, **values)


class TestDrift(base.TestCase):

    KEY = ('xdp', 'rate/ipip/64')

    def test_spread_between_runs_of_one_commit(self):
        known = drift.known(repeated(100))
        # 1.96 * sqrt(2) * 0.01
        self.assertAlmostEqual(0.028, known[self.KEY], 2)

    def test_commits_are_pooled_and_their_changes_do_not_count(self):
        runs = [*repeated(50, commit='a1'), *repeated(50, seed=2,
                                                      commit='b2')]
        for run in runs[50:]:
            run.cases[0].samples = [3 * value
                                    for value in run.cases[0].samples]
        self.assertAlmostEqual(0.028, drift.known(runs)[self.KEY], 2)

    def test_few_runs_say_nothing(self):
        self.assertEqual({}, drift.known(repeated(4)))
        self.assertIn(self.KEY, drift.known(repeated(5)))

    def test_other_machines_and_changed_checkouts_do_not_count(self):
        runs = list(repeated(10))
        for number, run in enumerate(runs):
            run.fingerprint = {'beds': {'b': {'machines': {'m': {'cpu': {
                'model': f'cpu {number}'}}}}}}
        self.assertEqual({}, drift.known(runs))
        self.assertEqual({}, drift.known(repeated(10, commit='a1+')))

    def test_marked_cases_do_not_count(self):
        runs = list(repeated(10))
        for run in runs:
            run.cases[0].marks.append('clock stepped')
        self.assertEqual({}, drift.known(runs))


class TestComparison(base.TestCase):

    def compare(self, before, after, known=()):
        return comparison.compare(before, after, verdict.Interest(), known)

    def test_runs_in_turn(self):
        before, after = repeated(2, spread=0.3)
        for run in before, after:
            run.fingerprint = {comparison.IN_TURN: 'a'}
            run.cases[0].samples = [100.0, 50.0, 100.0] * 4
        compared = self.compare(before, after)
        self.assertEqual((True, verdict.SAME, []), (
            compared.in_turn, compared.verdict, compared.warnings))
        after.fingerprint = {comparison.IN_TURN: 'b'}
        self.assertEqual((False, verdict.UNKNOWN), (
            self.compare(before, after).in_turn,
            self.compare(before, after).verdict))

    def test_runs_apart_learn_from_the_store(self):
        before, after, *others = repeated(30, spread=0.002)
        self.assertEqual(verdict.UNKNOWN, self.compare(before, after).verdict)
        self.assertEqual(verdict.SAME,
                         self.compare(before, after, others).verdict)

    def test_cases_of_one_leave_no_same(self):
        before, after, *others = repeated(30, spread=0.002)
        after.cases.append(results.case('new'))
        compared = self.compare(before, after, others)
        self.assertEqual((verdict.UNKNOWN, ['new'], []), (
            compared.verdict, [case.name for case in compared.only_after],
            compared.only_before))

    def test_other_machine_is_named(self):
        before, after = repeated(2)
        for run, release in (before, '6.12'), (after, '6.18'):
            run.fingerprint = {'commit': release, 'beds': {'b': {'machines': {
                'm': {'kernel': {'release': release}}}}}}
        compared = self.compare(before, after)
        self.assertEqual(['beds/b/machines/m/kernel/release: "6.12" → "6.18"'],
                         list(map(str, compared.differences)))
        self.assertIn('different machines', compared.warnings[0])

    def test_nothing_in_common(self):
        self.assertRaises(
            errors.BenchError, self.compare,
            results.run(results.case('a')), results.run(results.case('b')))


class TestSelect(base.TestCase):

    def test_runs_as_people_name_them(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        opened = store.Store(folder / 'results.sqlite')
        opened.add([
            results.run(results.case(), commit='abcdef1'),
            results.run(results.case('other'), commit='abcdef1',
                        suite='tables'),
            results.run(results.case(), commit='1234567')])
        for text, suite, number in (
                ('1', None, 1), ('latest', None, 3), ('latest~1', None, 2),
                ('latest', 'tables', 2), ('abcd', None, 2),
                ('abcdef1', 'default', 1), ('1234567', None, 3)):
            self.assertEqual(number, select.choose(opened, text, suite).id)
        for text, reason in (('latest~3', '3 runs'), ('99', 'no run 99'),
                             ('ffff', 'no run of this commit'),
                             ('HEAD', 'not a run'), ('', 'not a run')):
            error = self.assertRaises(errors.BenchError, select.choose,
                                      opened, text)
            self.assertIn(reason, str(error))
