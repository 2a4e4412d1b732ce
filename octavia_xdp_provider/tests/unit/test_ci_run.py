# SPDX-License-Identifier: Apache-2.0
"""tools/suite/ci.py: what CI runs, in which order and for how long."""

import contextlib
import io
import os
import pathlib
import signal
import subprocess

import fixtures

from octavia_xdp_provider.tests.support import tools
from octavia_xdp_provider.tests.unit import base

ci = tools.load('ci')
kinds = tools.load('kinds')

MINUTE = 60


class Run(ci.Run):
    """Commands take as long as a test says, and end as it says."""

    def __init__(self, seconds=(), results=()):
        self.now = 0
        self.took, self.results = dict(seconds), dict(results)
        super().__init__(clock=lambda: self.now)

    def command(self, name, words, counts=True):
        took = self.took.get(name, kinds.BY_NAME[name].seconds
                             if name in kinds.BY_NAME else 15 * MINUTE)
        self.now += took
        self.done.append(ci.Done(name, self.results.get(name, ci.OK), took,
                                 counts))


def names(run):
    return [done.name for done in run.done]


class TestOrder(base.TestCase):

    def run_all(self, breakable, others, **options):
        self.run_ = Run(**options)
        ci.run_all(self.run_, breakable, others)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.passed = ci.report(self.run_, '0123456789abcdef')
        self.last_lines = output.getvalue()
        return names(self.run_)

    def test_order_result_and_last_lines_of_a_run(self):
        late = {'seconds': {'make test': 31 * MINUTE}}
        for what, arguments, options, done, passed, text in (
                ('breakable kinds follow, then the one in turn',
                 (['horizon', 'packages'], ['roles', 'ovn']), {},
                 ['horizon', 'packages', 'roles'], True, ''),
                ('kind that does not fit is named',
                 (['bench-guests', 'horizon'], []), late, ['horizon'], True,
                 'bench-guests: the change can break it, but it was not '
                 'begun'),
                ('first kind that fits is the one in turn',
                 ([], ['bench-guests', 'horizon', 'roles']), late,
                 ['horizon'], True, ''),
                ('breakable kind fails the run', (['horizon'], []),
                 {'results': {'horizon': ci.FAILED}}, ['horizon'], False,
                 'failed: horizon'),
                ('kind in turn fails nothing', ([], ['horizon']),
                 {'results': {'horizon': ci.FAILED}}, ['horizon'], True,
                 'horizon: FAILED'),
                ('package index that does not answer fails nothing',
                 (['horizon'], []), {'results': {'horizon': ci.NO_PACKAGES}},
                 ['horizon'], True, ci.NO_PACKAGES),
                ('nothing is begun after a kind that was stopped',
                 (['horizon', 'packages'], ['roles']),
                 {'results': {'horizon': ci.STOPPED}}, ['horizon'], False,
                 ''),
                ('kinds run after a failed test command', (['horizon'], []),
                 {'results': {'make test': ci.FAILED}}, ['horizon'], False,
                 '')):
            with self.subTest(what):
                self.assertEqual(['make test', *done],
                                 self.run_all(*arguments, **options))
                self.assertEqual(passed, self.passed)
                self.assertIn(text, self.last_lines)

    def test_reason_of_a_failure_is_in_the_last_lines(self):
        run = Run()
        run.done.append(ci.Done('make test', ci.FAILED, 1, True,
                                reason='        test_a\n    0x1 != 0x3'))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            ci.report(run, '0123456789abcdef')
        self.assertIn('test_a\n    0x1 != 0x3\n', output.getvalue())


class TestTurns(base.TestCase):

    def test_each_kind_is_first_and_last_for_some_number_of_commits(self):
        orders = [ci.choose([], number)[1]
                  for number in range(len(kinds.LONG))]
        for place in 0, -1:
            self.assertEqual(set(kinds.LONG_NAMES),
                             {order[place] for order in orders})

    def test_breakable_kinds_are_not_in_turn(self):
        breakable, others = ci.choose(['horizon', 'roles'], 7)
        self.assertEqual({'horizon', 'roles'}, set(breakable))
        self.assertEqual(set(kinds.LONG_NAMES) - set(breakable), set(others))


class TestCommand(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)

    def test_exit_status_says_how_it_ended(self):
        run = ci.Run()
        for status in 0, 1, ci.parts.UNAVAILABLE:
            run.command('command', ['sh', '-c', f'exit {status}'])
        self.assertEqual([ci.OK, ci.FAILED, ci.NO_PACKAGES],
                         [done.result for done in run.done])

    def test_command_that_takes_too_long_is_interrupted_and_cleans_up(self):
        run = ci.Run(stop=1)
        run.command('command', [
            'sh', '-c', f'trap "touch {self.directory}/cleaned; exit" TERM; '
            'while :; do sleep 0.02; done'])
        self.assertEqual(ci.STOPPED, run.done[0].result)
        self.assertTrue((self.directory / 'cleaned').exists())

    def test_command_that_ignores_the_interrupt_is_killed(self):
        self.useFixture(fixtures.MonkeyPatch('suite.ci.CLEAN_UP_S', 0.1))
        process = subprocess.Popen(
            ['sh', '-c', 'trap "" TERM; echo; while :; do sleep 1; done'],
            stdout=subprocess.PIPE, start_new_session=True)
        process.stdout.readline()
        ci.end(process)
        process.stdout.close()
        self.assertEqual(-signal.SIGKILL, process.returncode)


class TestBase(base.TestCase):
    """In a clone whose commits have times."""

    def setUp(self):
        super().setUp()
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(fixtures.MonkeyPatch('suite.reach.ROOT', root))
        self.git('init', '--quiet')

    def git(self, *words, when=0):
        stamp = f'{1_000_000_000 + when} +0000'
        return subprocess.run(
            ['git', '-c', 'user.name=name', '-c', 'user.email=name@example',
             *words], cwd=ci.reach.ROOT, check=True, capture_output=True,
            text=True, env={**os.environ, 'GIT_COMMITTER_DATE': stamp,
                            'GIT_AUTHOR_DATE': stamp}).stdout.strip()

    def commit(self, when):
        self.git('commit', '--quiet', '--allow-empty', '--message', 'one',
                 when=when)
        return self.git('rev-parse', 'HEAD')

    def test_newest_commit_four_hours_older_than_the_last(self):
        hour = 3600
        _first, wanted, _young, _last = (
            self.commit(when) for when in (0, 2 * hour, 4 * hour, 7 * hour))
        self.assertEqual(wanted, ci.usual_base())

    def test_first_commit_if_all_are_young(self):
        first, _last = self.commit(0), self.commit(60)
        self.assertEqual(first, ci.usual_base())
