# SPDX-License-Identifier: Apache-2.0
"""Output of octavia-xdp-ctl about the node's processes."""

import argparse
import io
import json
from unittest import mock

from octavia_xdp_provider.ctl import processes
from octavia_xdp_provider.ctl import top
from octavia_xdp_provider.ctl import verify
from octavia_xdp_provider.health import checker_status
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.tests.unit import base


class TestProcesses(base.TestCase):

    def setUp(self):
        super().setUp()
        directory = self.create_tempfiles([('x', '')])[0].rpartition('/')[0]
        self.arguments = argparse.Namespace(
            config_file=None, lock_file=f'{directory}/datapath.lock',
            json=False)
        self.files = processes.files_of(self.arguments)
        self.answer = {}
        self.enterContext(mock.patch.object(
            checker_status, 'read', lambda path: self.answer))
        for path in self.files.agent_heartbeat, self.files.handler_heartbeat:
            heartbeat.Heartbeat(path).beat()
        self.node = mock.Mock()
        self.node.faults.return_value = []
        self.node.info.return_value.services = 3

    def test_hanging_process_is_named(self):
        self.assertEqual([], processes.problems(self.files))
        self.answer = None
        with mock.patch.object(heartbeat, 'SILENCE_MAX_S', -1.0):
            names = [text.split()[0] for text in processes.problems(
                self.files)]
        self.assertEqual(['octavia-xdp-agent', 'octavia-xdp-result-handler',
                          'octavia-xdp-hc'], names)

    def verified(self):
        with mock.patch('sys.stdout', new_callable=io.StringIO) as out:
            self.assertEqual(0, verify.run(self.node, self.arguments))
        return out.getvalue()

    def test_right_tables_that_nobody_follows_are_not_all_that_is_said(self):
        self.assertNotIn('octavia-xdp', self.verified())
        self.answer = None
        self.assertIn('octavia-xdp-hc does not answer', self.verified())
        self.arguments.json = True
        self.assertEqual(['octavia-xdp-hc does not answer'],
                         json.loads(self.verified())['processes'])

    def test_top_begins_with_it(self):
        view = mock.Mock(total=mock.Mock(packets=0, bytes=0, flows=0),
                         services=0, outcomes=[])
        self.assertEqual('octavia-xdp-hc does not answer', top.head(
            view, 'packets', ['octavia-xdp-hc does not answer'])[0])
