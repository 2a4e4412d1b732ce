# SPDX-License-Identifier: Apache-2.0

import os
import subprocess

from octavia_xdp_provider.proxy.launcher import machine
from octavia_xdp_provider.tests.unit import base


class TestUids(base.TestCase):

    def test_process_that_has_ended_uses_no_number(self):
        child = subprocess.Popen(['true'])
        self.addCleanup(child.wait)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assertEqual(set(), machine._uids(str(child.pid)))
        self.assertEqual({os.getuid()}, machine._uids('self'))
