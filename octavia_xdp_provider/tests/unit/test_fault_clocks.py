# SPDX-License-Identifier: Apache-2.0
"""The clocks of the fault matrix: a time of day that is another one, and
sleeps that are as long as ever."""

import os
import pathlib
import subprocess
import sys
import time

import fixtures

from octavia_xdp_provider.tests.faults import clocks
from octavia_xdp_provider.tests.unit import base

PROGRAM = '''
import threading, time
before = time.monotonic()
time.sleep(0)
time.sleep(0.3)
threading.Event().wait(0.3)
print(time.monotonic() - before, time.time())
'''


class TestClock(base.TestCase):

    def test_the_time_of_day_jumps_and_a_sleep_does_not(self):
        if clocks.library() is None:
            self.skipTest('no libfaketime here')
        file = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'clock')
        for ahead_s in (0, clocks.JUMP_S, -clocks.JUMP_S):
            file.write_text(f'{ahead_s:+d}\n')
            before = time.time()
            done = subprocess.run(
                [sys.executable, '-c', PROGRAM], text=True,
                capture_output=True,
                env=dict(os.environ, **clocks.environment(file)))
            self.assertEqual('', done.stderr)
            slept_s, now = map(float, done.stdout.split())
            self.assertLessEqual(0.6, slept_s)
            # Whole seconds of the difference, whatever the program took.
            self.assertLessEqual(before - 1, now - ahead_s)
            self.assertGreaterEqual(time.time() + 1, now - ahead_s)
