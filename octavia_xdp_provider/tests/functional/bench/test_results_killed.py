# SPDX-License-Identifier: Apache-2.0
"""A process that records is killed, at whatever moment: nothing half is seen,
nothing is left, and another one that records meanwhile loses nothing."""

import contextlib
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys

import fixtures
from oslotest import base

from bench.results import store
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit.bench import results

CASES = 12

# Says a line for each step, so that it can be killed between or in any.
RECORDER = f"""
import pathlib, sys
from bench.results import store
from octavia_xdp_provider.tests.unit.bench import results
opened = store.Store(pathlib.Path(sys.argv[1]))
while True:
    run = results.run(commit='of-the-killed')
    opened.begin(run)
    print('begun', flush=True)
    for number in range({CASES}):
        opened.add(run, results.case(f'case{{number}}'))
        print('added', flush=True)
    opened.finish(run)
    print('finished', flush=True)
"""


class TestKilled(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = folder / 'results.sqlite'
        self.store = store.Store(self.path)

    def kill_after(self, lines):
        """How many runs the recorder had said to be finished."""
        process = subprocess.Popen(
            [sys.executable, '-c', RECORDER, self.path], text=True,
            stdout=subprocess.PIPE)
        try:
            said = [process.stdout.readline() for _ in range(lines)]
        finally:
            process.kill()
            rest = process.stdout.read()
            self.assertEqual(-signal.SIGKILL, process.wait())
            process.stdout.close()
        return ''.join([*said, rest]).count('finished')

    def unfinished(self):
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(
                'SELECT count(*) FROM runs WHERE finished IS NULL',
            ).fetchone()[0]

    @form.in_long_form
    def test_killed_between_any_two_steps(self):
        source = random.Random(1)
        own = results.run(commit='of-the-living')
        self.store.begin(own)
        known = 0
        for lines in (1, 2, CASES, CASES + 1, CASES + 2,
                      *(source.randrange(1, 2 * CASES) for _ in range(5))):
            known += self.kill_after(lines)
            seen = self.store.runs(commit='of-the-killed')
            # The last one may have been finished and not said it.
            self.assertIn(len(seen) - known, (0, 1))
            known = len(seen)
            for run in seen:
                self.assertEqual(CASES, len(run.cases))
            self.store.add(own, results.case(f'round{lines}-{known}-'
                                             f'{len(own.cases)}'))
        self.assertEqual([], self.store.runs(commit='of-the-living'))
        self.store.finish(own)
        self.assertEqual([own], self.store.runs(commit='of-the-living'))
        last = results.run()
        self.store.begin(last)
        self.assertEqual(1, self.unfinished())
        self.store.discard(last)
        self.assertEqual(0, self.unfinished())

    def test_living_recorder_is_left_alone_by_the_next(self):
        process = subprocess.Popen(
            [sys.executable, '-c', RECORDER.replace(
                "    opened.finish(run)\n",
                "    sys.stdin.read()\n    opened.finish(run)\n"
                "    sys.exit()\n"), self.path],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(CASES + 1):
            self.assertNotEqual('', process.stdout.readline())
        with self.store.recording(results.run()) as run:
            self.store.add(run, results.case())
        process.stdin.close()
        self.assertEqual(0, process.wait())
        found, = self.store.runs(commit='of-the-killed')
        self.assertEqual(CASES, len(found.cases))
