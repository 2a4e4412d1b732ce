# SPDX-License-Identifier: Apache-2.0
"""The provider agent as octavia-driver-agent runs it, with another child."""

import multiprocessing
import os
import select
import signal
import sys
from unittest import mock

from oslotest import base

from octavia_xdp_provider.controller import provider_agent
from octavia_xdp_provider.process import supervisor

# Far longer than any of these tests takes.
LIMIT_S = 20
# A handler could run just before the wait, and would not end it.
CHILD = ('import os, signal, sys\n'
         'signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n'
         'os.write(int(sys.argv[1]), b"%d\\n" % os.getpid())\n'
         f'signal.sigtimedwait([signal.SIGTERM], {LIMIT_S})')


class TestProviderAgent(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.reader, self.writer = os.pipe()
        self.addCleanup(os.close, self.reader)
        context = multiprocessing.get_context('fork')
        self.exit_event = context.Event()
        self.agent = context.Process(target=self._run_agent)
        self.agent.start()
        os.close(self.writer)
        self.addCleanup(self._end_agent)

    def _run_agent(self):
        def command(arguments):
            def work():
                # The pipe stands for whatever the controller holds.
                os.set_inheritable(self.writer, True)
                os.execv(arguments[0], arguments)
            return work

        with mock.patch.object(
                provider_agent, 'COMMAND',
                (sys.executable, '-c', CHILD, str(self.writer))), \
                mock.patch.object(provider_agent, 'BACKOFF',
                                  supervisor.Backoff(0.01, 0.02)), \
                mock.patch.object(provider_agent, '_start_listeners'), \
                mock.patch.object(supervisor, 'command', command):
            provider_agent.xdp_provider_agent(self.exit_event)

    def _end_agent(self):
        self.agent.kill()
        self.agent.join(LIMIT_S)

    def _read(self):
        ready, _, _ = select.select([self.reader], [], [], LIMIT_S)
        self.assertTrue(ready, 'nothing was written')
        return os.read(self.reader, 64)

    def test_killed_controller_is_started_again(self):
        first = int(self._read())
        os.kill(first, signal.SIGKILL)

        self.assertNotEqual(first, int(self._read()))

    def test_controller_that_ended_well_is_started_again(self):
        first = int(self._read())
        os.kill(first, signal.SIGTERM)

        self.assertNotEqual(first, int(self._read()))

    def test_controller_ends_with_octavia_driver_agent(self):
        self._read()

        self.exit_event.set()

        self.assertEqual(b'', self._read())
        self.agent.join(LIMIT_S)
        self.assertEqual(0, self.agent.exitcode)

    def test_controller_ends_with_a_killed_provider_agent(self):
        self._read()

        self.agent.kill()

        self.assertEqual(b'', self._read())

    def test_nothing_is_started_when_octavia_driver_agent_is_dead(self):
        self._read()
        with mock.patch.object(supervisor, 'die_with_parent',
                               return_value=False), \
                mock.patch('os.fork') as fork:
            provider_agent.xdp_provider_agent(self.exit_event)

        fork.assert_not_called()
