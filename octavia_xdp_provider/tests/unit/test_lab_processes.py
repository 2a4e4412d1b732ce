# SPDX-License-Identifier: Apache-2.0
"""lab/processes.py: children of this process."""

import os
import subprocess
from unittest import mock

from lab import processes
from octavia_xdp_provider.tests.unit import base


class TestReap(base.TestCase):

    def child(self, *words):
        child = subprocess.Popen(words)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def test_only_children_that_ended_are_reaped(self):
        ended, running = self.child('true'), self.child('sleep', '600')
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        children = {child.pid: child for child in (ended, running)}
        with mock.patch.object(processes, '_children', children):
            processes.reap()
        self.assertEqual({running.pid: running}, children)
        self.assertRaises(ChildProcessError, os.waitpid, ended.pid, 0)
