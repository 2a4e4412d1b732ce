# SPDX-License-Identifier: Apache-2.0

import os
import signal
import subprocess
import sys

from oslotest import base

from octavia_xdp_provider.process import interrupts

LIMIT_S = 60
READER = """
import os, signal, sys
from octavia_xdp_provider.process import interrupts
end = interrupts.End()
if sys.argv[1:]:
    os.kill(os.getpid(), int(sys.argv[1]))
print('waits', end.wait(0.01), flush=True)
while not end.wait(0.0005):
    pass
"""


class TestEnd(base.BaseTestCase):

    def start(self, *words):
        process = subprocess.Popen(
            [sys.executable, '-c', READER, *words], stdout=subprocess.PIPE,
            text=True)

        def clean_up():
            process.kill()
            process.communicate()
        self.addCleanup(clean_up)
        return process

    def test_each_signal_ends_a_reader_whatever_it_is_at(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start()
            self.assertEqual('waits False\n', process.stdout.readline())
            process.send_signal(number)
            self.assertEqual(0, process.wait(LIMIT_S))

    def test_signal_before_the_wait_ends_it_at_once(self):
        process = self.start(str(int(signal.SIGTERM)))
        self.assertEqual('waits True\n', process.stdout.readline())


class TestAskedToEnd(base.BaseTestCase):

    def test_signals_are_noticed_and_handlers_restored(self):
        before = signal.getsignal(signal.SIGTERM)
        with interrupts.asked_to_end() as asked:
            self.assertFalse(asked())
            os.kill(os.getpid(), signal.SIGTERM)
            self.assertTrue(asked())
        self.assertEqual(before, signal.getsignal(signal.SIGTERM))
