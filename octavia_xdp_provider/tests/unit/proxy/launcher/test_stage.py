# SPDX-License-Identifier: Apache-2.0
"""The process that becomes HAProxy, as far as it can be tested without root;
the rest is in functional.node.test_proxy_launcher."""

import subprocess
import sys
from unittest import mock

from octavia_xdp_provider.proxy.launcher import stage
from octavia_xdp_provider.tests.unit import base


class TestStage(base.TestCase):

    def test_launcher_that_dies_before_its_order_leaves_nothing(self):
        for sent in (b'', b'{"arguments": ["/bin/true"]}'):
            with self.subTest(sent):
                done = subprocess.run(
                    [sys.executable, '-I', '-S', stage.__file__], input=sent,
                    capture_output=True, timeout=60)
                self.assertEqual((1, b''), (done.returncode, done.stderr))

    def test_limit_above_that_of_the_launcher_is_named(self):
        with mock.patch.object(stage.resource, 'setrlimit', side_effect=(
                None, None, ValueError('not allowed'))):
            error = self.assertRaises(OSError, stage.set_limits, {
                'files': 70000, 'tasks': 8})
        self.assertIn('70000 open files', str(error))
        self.assertIn('[proxy] connections', str(error))
