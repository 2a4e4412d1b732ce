# SPDX-License-Identifier: Apache-2.0
"""The agent's view of the node's other processes."""

import time
from unittest import mock

from octavia_xdp_provider.agent import processes
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.tests.unit import base


class TestProcesses(base.TestCase):

    def setUp(self):
        super().setUp()
        directory = self.create_tempfiles([('x', '')])[0].rpartition('/')[0]
        self.files = run_directory.RunDirectory(self.load(
            f'[agent]\nrun_directory = {directory}\n'))
        self.status = announcements.Status()
        self.processes = processes.Processes(
            self.files, mock.Mock(status=lambda: self.status))
        # It has been looking for long.
        self.processes._began_s = time.monotonic() - 60

    def wrong(self):
        return {name for name, text in self.processes.look().items() if text}

    def test_handler_that_shows_no_sign_of_life_is_named(self):
        self.assertEqual({messages.RESULT_HANDLER}, self.wrong())
        heartbeat.Heartbeat(self.files.handler_heartbeat).beat()
        self.assertEqual(set(), self.wrong())

    def test_speaker_that_does_not_run_or_answer_is_named(self):
        heartbeat.Heartbeat(self.files.handler_heartbeat).beat()
        for self.status in None, announcements.Status(error='no answer'):
            self.assertEqual({messages.SPEAKER}, self.wrong())

    def test_checker_works_if_it_answers(self):
        heartbeat.Heartbeat(self.files.handler_heartbeat).beat()
        self.assertEqual(
            {processes.CHECKER: False, messages.RESULT_HANDLER: True,
             messages.SPEAKER: True}, self.processes.work())
