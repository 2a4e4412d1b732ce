# SPDX-License-Identifier: Apache-2.0
"""tools/parts.py, which runs the parts of the tests side by side."""

import contextlib
import importlib.util
import io
import pathlib
import subprocess
import sys

import fixtures

from octavia_xdp_provider.tests.unit import base

ROOT = pathlib.Path(__file__).parents[3]
FILE = ROOT / 'tools' / 'parts.py'
TESTS = ROOT / 'octavia_xdp_provider' / 'tests'


def load():
    specification = importlib.util.spec_from_file_location('parts', FILE)
    module = importlib.util.module_from_spec(specification)
    # dataclasses look their module up.
    sys.modules['parts'] = module
    specification.loader.exec_module(module)
    return module


parts = load()


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
        def meet(mine, other):
            return (f'cd {self.directory}; touch {mine}; '
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
            'parts.Schedule._collect', interrupt))
        script = (f'cd {self.directory}; trap "touch cleaned; exit 1" TERM; '
                  'touch begun; while :; do sleep 0.02; done')

        self.assertRaises(
            KeyboardInterrupt, self.run_parts, {'one': script},
            parts.Part('one', 'kind', 'lane'))
        self.assertTrue((self.directory / 'cleaned').exists())


class TestFolders(base.TestCase):

    def test_each_folder_with_tests_is_run_by_a_part(self):
        script = (ROOT / 'tools' / 'test-part').read_text()
        found = {module.parent for kind in ('functional', 'e2e')
                 for module in (TESTS / kind).glob('**/test_*.py')}
        self.assertIn(TESTS / 'functional' / 'node', found)
        for folder in found:
            # Of a folder that a part runs all below it is run.
            self.assertTrue(any(
                f'{how}_tests {one.relative_to(TESTS)} ' in script
                for how in ('python', 'timed')
                for one in (folder, *folder.parents) if TESTS in one.parents),
                folder)


class TestOnceMore(base.TestCase):
    """tools/test-part with a stestr that does as it is told."""

    STESTR = '''#!/bin/sh
case "$*" in
*" failing --list") cat failing; exit 1;;
*" run --failing --serial") echo "run --failing" >> runs; exit $(cat again);;
*" run "*) echo run >> runs; cat output; exit 1;;
esac
'''

    def run_part(self, failing, again=0, output='', part='functional-bench'):
        """Its exit status, and how stestr ran tests."""
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for path, text in (
                ('tools/test-part', (ROOT / 'tools/test-part').read_text()),
                ('build/venv/bin/stestr', self.STESTR),
                ('failing', failing), ('again', str(again)),
                ('output', output)):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            (root / path).chmod(0o755)
        status = subprocess.run([root / 'tools/test-part', part],
                                capture_output=True, check=False).returncode
        return status, (root / 'runs').read_text().splitlines()

    def test_two_tests_that_fail_run_once_more(self):
        for again in 0, 1:
            self.assertEqual(
                (again, ['run', 'run --failing']),
                self.run_part('tests.A.test_a\ntests.B.test_b\n', again))

    def test_others_do_not(self):
        for arguments in (
                {'failing': 'a\nb\nc\n'}, {'failing': ''},
                {'failing': 'setUpClass (tests.A)\n'},
                {'failing': 'a\n', 'output':
                 'The following tests exited without returning a status\n'},
                {'failing': 'a\n', 'part': 'packets'},
                {'failing': 'a\n', 'part': 'unit-python'}):
            self.assertEqual((1, ['run']), self.run_part(**arguments),
                             arguments)
