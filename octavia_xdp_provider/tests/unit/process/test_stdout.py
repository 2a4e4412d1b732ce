# SPDX-License-Identifier: Apache-2.0

import os
import subprocess
import sys

from octavia_xdp_provider.tests.unit import base

SAY = ('import sys; from octavia_xdp_provider.process import stdout; '
       'stdout.prepare(); stdout.say("x" * 100000); sys.exit(7)')
ABANDON = ('import sys; from octavia_xdp_provider.process import stdout\n'
           'print("x")\nstdout.abandon()\nsys.exit(7)')


class TestStreams(base.TestCase):
    """Python itself flushes at its end, and has a status for failing."""

    def end(self, program, stdout, **more):
        environment = {name: value for name, value in os.environ.items()
                       if name != 'PYTHONUNBUFFERED'}
        return subprocess.run(
            [sys.executable, '-c', program], stdout=stdout,
            stderr=subprocess.PIPE, text=True, env=environment, **more)

    def test_reader_that_has_gone_is_no_failure(self):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            for program in SAY, ABANDON:
                end = self.end(program, writer)
                self.assertEqual((7, ''), (end.returncode, end.stderr))
        finally:
            os.close(writer)

    def test_full_disk_is_a_failure(self):
        with open('/dev/full', 'w') as full:
            end = self.end(ABANDON, full)
            self.assertEqual((7, ''), (end.returncode, end.stderr))
            end = self.end(SAY, full)
            self.assertNotEqual(0, end.returncode)
            self.assertIn('No space left', end.stderr)

    def test_closed_standard_output_is_written_to_nobody(self):
        end = self.end(f'import os; os.execv({sys.executable!r}, '
                       f'[{sys.executable!r}, "-c", {SAY!r}]) '
                       'if not os.close(1) else None', None)
        self.assertEqual((7, ''), (end.returncode, end.stderr))
