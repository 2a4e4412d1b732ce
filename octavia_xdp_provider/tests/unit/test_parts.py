# SPDX-License-Identifier: Apache-2.0
"""tools/suite: parts of the tests, which run side by side."""

import contextlib
import io
import os
import pathlib
import re
import subprocess

import fixtures

from octavia_xdp_provider.tests.support import tools
from octavia_xdp_provider.tests.unit import base

ROOT = tools.ROOT
TESTS = ROOT / 'octavia_xdp_provider' / 'tests'
kinds = tools.load('kinds')
parts = tools.load('parts')
plan = tools.load('plan')
reach = tools.load('reach')


PYTHON_LOG = '''\
{0} tests.one.Test.test_good [1.0s] ... ok
{1} tests.two.Test.test_bad [2.5s] ... FAILED

Captured traceback:
~~~~~~~~~~~~~~~~~~~
    Traceback (most recent call last):
      File "two.py", line 5, in test_bad
    AssertionError: SEED=7, step 3

{0} tests.one.Test.test_later [1.0s] ... ok
'''
RUST_LOG = '''\
thread 'probe::tests::answers' (71) panicked at src/probe.rs:8:5:
assertion failed: up
note: run with `RUST_BACKTRACE=1`
test result: FAILED. 1 passed; 1 failed
'''
C_LOG = '''\
[ RUN      ] test_pools
0x1 != 0x3
tests/test_pools.c:40: error: Failure!
[  FAILED  ] test_pools
[==========] tests: 9 test(s) run.
'''


class TestFailures(base.TestCase):
    """The last lines of a run, made from logs of the runners."""

    def failures(self, text):
        log = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'log'
        log.write_text(text)
        return parts.Run(None, None, 0, log).failures()

    def test_each_is_named_with_its_error(self):
        for text, name, error in (
                (PYTHON_LOG, 'tests.two.Test.test_bad',
                 '    AssertionError: SEED=7, step 3'),
                (RUST_LOG, 'probe::tests::answers', 'assertion failed: up'),
                (C_LOG, 'test_pools', '0x1 != 0x3')):
            failures = self.failures(text)
            self.assertEqual([name], list(failures))
            self.assertIn(error, failures[name])

    def test_other_tests_are_no_reason(self):
        lines = self.failures(PYTHON_LOG)['tests.two.Test.test_bad']
        self.assertEqual('    AssertionError: SEED=7, step 3', lines[-1])

    def test_reason_is_bounded(self):
        lines = ''.join(f'    {"x" * 2000}\n' for _ in range(500))
        failures = self.failures(PYTHON_LOG.replace('    Traceback', lines))
        reason = failures['tests.two.Test.test_bad']
        self.assertLess(sum(map(len, reason)), 10000)


class TestSchedule(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)

    def run_parts(self, scripts, *chosen):
        """Run parts whose commands are shell scripts by their names."""
        self.schedule = parts.Schedule(
            chosen, lambda part: ['sh', '-ec', scripts[part.name]],
            self.directory)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.schedule.run()
        self.output = output.getvalue()
        return {run.part.name: run.ok for run in self.schedule.runs}

    def test_one_part_of_a_lane_runs_at_a_time(self):
        script = (f'cd {self.directory}; mkdir running; sleep 0.1; '
                  'rmdir running')

        done = self.run_parts(
            {'one': script, 'two': script},
            parts.Part('one', 'kind', 'lane'),
            parts.Part('two', 'kind', 'lane'))

        self.assertEqual({'one': True, 'two': True}, done)

    def test_parts_of_two_lanes_run_side_by_side(self):
        def meet(own, other):
            return (f'cd {self.directory}; touch {own}; '
                    f'until [ -e {other} ]; do sleep 0.02; done')

        done = self.run_parts(
            {'one': meet('a', 'b'), 'two': meet('b', 'a')},
            parts.Part('one', 'kind', 'first'),
            parts.Part('two', 'kind', 'second'))

        self.assertEqual({'one': True, 'two': True}, done)

    def test_part_waits_for_what_it_needs_in_another_lane(self):
        done = self.run_parts(
            {'makes': f'sleep 0.3; touch {self.directory}/made',
             'takes': f'test -e {self.directory}/made'},
            parts.Part('takes', 'kind', 'first', needs=('makes',)),
            parts.Part('makes', None, 'second'))

        self.assertEqual({'makes': True, 'takes': True}, done)

    def test_part_whose_need_failed_is_not_run(self):
        done = self.run_parts(
            {'makes': 'exit 1'},
            parts.Part('takes', 'kind', 'first', needs=('makes',)),
            parts.Part('again', 'kind', 'first', needs=('takes',)),
            parts.Part('makes', None, 'second'))

        self.assertEqual({'makes': False}, done)
        self.assertEqual(['takes', 'again'],
                         [part.name for part in self.schedule.not_run])

    def test_output_is_shown_of_a_failure_only(self):
        done = self.run_parts(
            {'good': 'echo quiet', 'bad': 'echo the reason; exit 3',
             'later': 'true'},
            parts.Part('good', 'kind', 'lane'),
            parts.Part('bad', 'kind', 'lane'),
            parts.Part('later', 'kind', 'lane'))

        self.assertEqual({'good': True, 'bad': False, 'later': True}, done)
        self.assertIn('the reason', self.output)
        self.assertNotIn('quiet', self.output)
        self.assertEqual(
            'quiet\n', (self.directory / 'test-good.log').read_text())

    def test_interrupt_ends_parts_and_lets_them_clean_up(self):
        def interrupt(_run):
            if (self.directory / 'begun').exists():
                raise KeyboardInterrupt

        self.useFixture(fixtures.MonkeyPatch(
            'suite.parts.Schedule._collect', interrupt))
        script = (f'cd {self.directory}; trap "touch cleaned; exit 1" TERM; '
                  'touch begun; while :; do sleep 0.02; done')

        self.assertRaises(
            KeyboardInterrupt, self.run_parts, {'one': script},
            parts.Part('one', 'kind', 'lane'))
        self.assertTrue((self.directory / 'cleaned').exists())


class TestPlan(base.TestCase):

    def test_each_folder_with_tests_is_run_by_a_part(self):
        script = (ROOT / 'tools' / 'test-part').read_text()
        folders = {module.parent for kind in ('functional', 'e2e')
                   for module in (TESTS / kind).glob('**/test_*.py')}
        self.assertIn(TESTS / 'functional' / 'node', folders)
        for folder in folders:
            # A part that runs a folder runs all folders below it.
            self.assertTrue(any(
                f'{how}_tests {parent.relative_to(TESTS)} ' in script
                for how in ('python', 'timed')
                for parent in (folder, *folder.parents)
                if TESTS in parent.parents), folder)

    def test_part_of_a_folder_is_known_by_its_name(self):
        for name, folder in reach.FOLDERS.items():
            self.assertIn(name, kinds.PYTHON)
            self.assertTrue((ROOT / folder).is_dir(), folder)
            self.assertIn(f'tests {folder.removeprefix(reach.TESTS)[:-1]} ',
                          (ROOT / 'tools' / 'test-part').read_text())

    def test_each_kind_has_parts_and_each_part_a_kind(self):
        self.assertEqual(set(kinds.BY_NAME), {
            part.kind for part in plan.ALL if part.kind})
        for part in plan.ALL:
            self.assertLessEqual(set(part.needs), set(plan.BY_NAME))

    def test_each_part_is_known_to_the_script(self):
        for part in (*plan.TESTS, *plan.LONG_TESTS):
            name = part.name.removesuffix('-long')
            if not name.startswith('kernel-'):
                self.assertIn(f'\npart_{name}() {{', (
                    ROOT / 'tools' / 'test-part').read_text())

    def test_budgets_are_those_of_parts(self):
        budgets = tools.load('report').budget.seconds()
        self.assertIn('unit-python', budgets)
        self.assertLessEqual(set(budgets), set(plan.BY_NAME))

    def test_page_says_how_long_each_long_kind_takes(self):
        page = (ROOT / 'doc/source/contributor/testing.rst').read_text()
        self.assertEqual(
            {kind.name: f'{kind.seconds / 60:.0f}' for kind in kinds.LONG},
            dict(re.findall(r'   \* - ``([a-z0-9-]+)``\n     - (\d+) min\n',
                            page)))

    def test_short_kinds_need_nothing_that_is_long(self):
        names = plan.of_kinds([kind.name for kind in kinds.SHORT])
        self.assertEqual([], [part.name for part in plan.of(names)
                              if part.long])

    def test_long_kinds_run_with_the_checker_as_it_is_installed(self):
        checkers = [part for part in plan.of(plan.of_kinds(['node']))
                    if part.name == 'checker']
        self.assertEqual([True], [part.long for part in checkers])


class TestOnceMore(base.TestCase):
    """tools/test-part with a stestr that does as it is told."""

    STESTR = '''#!/bin/sh
case "$*" in
*" failing --list") cat failing; exit 1;;
*" run --failing --serial") echo "run --failing" >> runs; exit $(cat again);;
*" run "*) echo run >> runs; cat output; exit 1;;
esac
'''

    def run_part(self, failing, again=0, output='', part='functional-bench',
                 tries=''):
        """Its exit status, and how stestr ran tests."""
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for path, text in (
                ('tools/test-part', (ROOT / 'tools/test-part').read_text()),
                ('build/venv/bin/stestr', self.STESTR),
                ('failing', failing), ('again', str(again)),
                ('output', output), ('tries', tries)):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            (root / path).chmod(0o755)
        status = subprocess.run(
            [root / 'tools/test-part', part], capture_output=True,
            check=False, env={
                **os.environ, 'OCTAVIA_XDP_SECOND_TRIES': str(root / 'tries')
            }).returncode
        self.tries = (root / 'tries').read_text().split()
        return status, (root / 'runs').read_text().splitlines()

    def test_two_tests_that_fail_run_once_more(self):
        for again in 0, 1:
            self.assertEqual(
                (again, ['run', 'run --failing']),
                self.run_part('tests.A.test_a\ntests.B.test_b\n', again))
            self.assertEqual(['tests.A.test_a', 'tests.B.test_b'], self.tries)

    def test_two_tests_of_a_run_get_a_second_try(self):
        runs = ['run', 'run --failing']
        self.assertEqual((0, runs), self.run_part('a\n', tries='other\n'))
        self.assertEqual(['other', 'a'], self.tries)
        self.assertEqual((1, runs[:1]), self.run_part(
            'a\n', tries='other\nthird\n'))

    def test_failures_beyond_two_are_not_repeated(self):
        for arguments in (
                {'failing': 'a\nb\nc\n'}, {'failing': ''},
                {'failing': 'setUpClass (tests.A)\n'},
                {'failing': 'a\n', 'output':
                 'The following tests exited without returning a status\n'},
                {'failing': 'a\n', 'part': 'packets'},
                {'failing': 'a\n', 'part': 'unit-python'}):
            self.assertEqual((1, ['run']), self.run_part(**arguments),
                             arguments)
