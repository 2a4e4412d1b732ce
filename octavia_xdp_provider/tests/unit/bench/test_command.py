# SPDX-License-Identifier: Apache-2.0
"""The command: what it has, how it fails, and how little it imports."""

import contextlib
import io
import pathlib
import subprocess
from unittest import mock

import fixtures

import bench
from bench import __main__ as command
from bench import commands
from bench import errors
from bench.results import store
from octavia_xdp_provider.tests.unit import base

CHECKOUT = pathlib.Path(bench.__file__).parents[1]


class TestCommand(base.TestCase):

    def run_with(self, run, *words):
        """(exit status, standard error) with one command called "made"."""
        def add_all(choices):
            parser = choices.add_parser('made')
            parser.add_argument('--count', type=int)
            parser.set_defaults(run=run)
        said = io.StringIO()
        with (mock.patch.object(commands, 'add_all', add_all),
              contextlib.redirect_stderr(said)):
            try:
                return command.main(list(words)), said.getvalue()
            except SystemExit as end:
                return end.code, said.getvalue()

    def test_arguments_reach_the_command_and_its_status_is_the_result(self):
        status, _ = self.run_with(lambda given: given.count, 'made',
                                  '--count', '7')
        self.assertEqual(7, status)

    def test_an_error_of_ours_is_shown_without_a_traceback(self):
        def run(_):
            raise errors.DeclarationError('bed.yaml', 3, 'no host "lb9"')
        status, said = self.run_with(run, 'made')
        self.assertEqual(1, status)
        self.assertEqual('octavia-xdp-bench: bed.yaml:3: no host "lb9"\n',
                         said)

    def test_another_error_keeps_its_traceback(self):
        def run(_):
            raise ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.run_with, run, 'made')

    def test_unknown_commands_and_arguments_are_named(self):
        for words in (('other',), ('made', '--other')):
            status, said = self.run_with(lambda _: 0, *words)
            self.assertEqual(2, status)
            self.assertIn(words[-1], said)

    def test_an_interruption_has_the_status_of_a_shell(self):
        def run(_):
            raise KeyboardInterrupt
        self.assertEqual(130, self.run_with(run, 'made')[0])


class TestCommands(base.TestCase):

    def run_words(self, *words):
        """(exit status, standard error) of "run"."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(
                io.StringIO()):
            try:
                return command.main(['run', *words]), said.getvalue()
            except SystemExit as end:
                return end.code, said.getvalue()

    def test_a_plan_is_of_what_can_run(self):
        plan = '--scenario', 'latency', '--plan'
        self.assertEqual((0, ''), self.run_words(*plan))
        for words, wrong, there_are in (
                (('--provider', 'gests'), '"gests"', 'namespaces, guest'),
                (('--bed', 'two-nodes'), '"two-nodes"', 'eight-nodes, ')):
            status, said = self.run_words(*plan, *words)
            self.assertEqual(1, status)
            self.assertIn(wrong, said)
            self.assertIn(there_are, said)

    def read_store(self, path, *words):
        """(exit status, standard error)"""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(
                io.StringIO()):
            return (command.main([*words, '--store', str(path)]),
                    said.getvalue())

    def test_a_store_that_is_not_there_is_not_made_by_reading_it(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for words in (('history',), ('history', 'rate'), ('export',),
                      ('export', 'latest'), ('report',), ('peers',),
                      ('compare', 'latest~1', 'latest')):
            missing = folder / 'missing' / 'results.sqlite'
            status, said = self.read_store(missing, *words)
            self.assertEqual(1, status, words)
            self.assertIn(f'{missing}: there is no store', said)
            self.assertFalse(missing.parent.exists(), words)

    def test_nothing_to_show_is_an_error(self):
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'new'
        store.Store(path)
        for words in ('history',), ('export',):
            self.assertEqual(
                (1, f'octavia-xdp-bench: {path} has no runs\n'),
                self.read_store(path, *words))
            self.assertEqual(
                (1, f'octavia-xdp-bench: {path} has no runs of suite dp\n'),
                self.read_store(path, *words, '--suite', 'dp'))

    def test_rounds_are_one_or_more(self):
        for word in '0', '-1', 'many':
            status, said = self.run_words('--plan', f'--rounds={word}')
            self.assertEqual(2, status)
            self.assertIn(f'"{word}" is no number of rounds', said)

    def test_the_program_works_from_anywhere(self):
        done = subprocess.run(
            [CHECKOUT / 'tools/octavia-xdp-bench', '--help'],
            cwd=self.useFixture(fixtures.TempDir()).path,
            capture_output=True, text=True, check=True)
        self.assertIn('octavia-xdp-bench', done.stdout)
