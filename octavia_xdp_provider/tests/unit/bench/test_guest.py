# SPDX-License-Identifier: Apache-2.0
"""How a guest is booted, and how long whoever asks it waits."""

import io
import pathlib
import subprocess
import sys
from unittest import mock

from bench import errors
from bench.beds import channel
from bench.beds import declaration
from bench.beds import guest
from octavia_xdp_provider.tests.unit import base


class TestCounting(base.TestCase):

    def booted(self, wanted):
        """(arguments of on-kernel, seconds that one of the guest may take)."""
        machine = mock.Mock(folder=pathlib.Path('/none'))
        with (mock.patch.object(guest, '_connected'),
              mock.patch.object(guest.channel, 'Channel') as made,
              guest._booted(machine, wanted)):
            return machine.start.call_args[0][0], made.call_args[0][4]

    def test_a_guest_that_counts_instructions(self):
        arguments, patience = self.booted(
            declaration.Guest(count_instructions=True))
        self.assertIn('--count-instructions', arguments)
        self.assertEqual(guest.COUNTING_PATIENCE, patience)

    def test_one_that_does_not(self):
        arguments, patience = self.booted(declaration.Guest())
        self.assertNotIn('--count-instructions', arguments)
        self.assertEqual(1, patience)

    def test_hardware_cannot(self):
        done = subprocess.run(
            [sys.executable, guest.ON_KERNEL, '--count-instructions',
             '--accel', 'kvm', '6.12', '--', 'true'],
            capture_output=True, text=True, check=False)
        self.assertEqual(2, done.returncode)
        self.assertIn('not with --accel kvm', done.stderr)


class TestPatience(base.TestCase):

    def test_waits_are_multiplied_but_what_the_agent_waits_is_not(self):
        """A request that nobody answers."""
        asked = io.BytesIO()
        with mock.patch.object(channel.threading, 'Thread'):
            opened = channel.Channel('guest', asked, io.BytesIO(), lambda: '',
                                     0.001)
        host = channel.Host(opened, 'lb', 'load_balancer',
                            pathlib.PurePosixPath('/run'), {})
        self.assertEqual(0.001, host.patience)
        with mock.patch.object(channel, 'futures') as futures:
            futures.TimeoutError = TimeoutError
            result = futures.Future.return_value.result
            result.side_effect = TimeoutError
            self.assertRaises(errors.BenchError, host.run, ['true'],
                              timeout=40)
        result.assert_called_once_with((40 + channel.ANSWER_S) * 0.001)
        self.assertIn(b'"timeout_s": 40', asked.getvalue())
