# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-member, killed at any call, and several at once: needs root."""

import json
import os
import random
import signal
import subprocess

from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import member_tool
from octavia_xdp_provider.tests.support import form

FULL = member_tool.FULL
OTHER_VIP = member_tool.OTHER_VIP
INJECT = fabric.DATAPATH / 'build/tests/inject.so'


class TestKilled(member_tool.Tool):
    """kill -9 before each call that can change something."""

    def killed(self, number, *words):
        """Whether the tool was killed, at the call of that number."""
        done = self.try_tool(*words, env={
            **os.environ, 'LD_PRELOAD': str(INJECT), 'KILL_AT': str(number)})
        if done.returncode == 128 + signal.SIGKILL:
            done.returncode = -signal.SIGKILL
        self.assertIn(done.returncode, (0, -signal.SIGKILL), done.stderr)
        return done.returncode != 0

    def sweep(self, words, prepare, then, step=1):
        """`then` after `words` was killed everywhere; how many places.

        With a step, only at each such place, from a random one on; the
        number is a lower bound then.
        """
        number = first = random.randint(1, step)
        while True:
            prepare()
            if not self.killed(number, *words):
                return number - step
            with self.subTest(first=first, number=number):
                then()
            number += step

    def test_setup_then_remove(self):
        before = self.state()

        def remove():
            self.tool('remove', 'eth0')
            self.assertEqual(before, self.state())
        places = self.sweep(FULL, remove, remove, form.repeats(4, 1))
        self.assertGreater(places, 20)

    def test_change_then_setup(self):
        other = ('setup', '--vip', OTHER_VIP, '--any-source', '--tc', 'eth0')
        before = self.state()

        def prepare():
            self.tool(*FULL)

        def again():
            self.tool(*other)
            self.assertEqual({'127.0.0.1', '::1', OTHER_VIP},
                             self.addresses())
            self.assertEqual({'arp'}, set(self.check(*other[1:-1])))
        places = self.sweep(other, prepare, again, form.repeats(4, 1))
        self.assertGreater(places, 20)
        self.tool('remove', 'eth0')
        self.assertEqual(before, self.state())

    def test_remove_then_remove(self):
        before = self.state()

        def prepare():
            self.tool(*FULL)

        def again():
            self.tool('remove', 'eth0')
            self.assertEqual(before, self.state())
        self.assertGreater(self.sweep(('remove', 'eth0'), prepare, again), 4)


class TestTogether(member_tool.Tool):

    def test_of_setups_at_once_the_last_one_holds(self):
        """One waits for the other: the last one's arguments hold."""
        words = ('ip', 'netns', 'exec', self.member, str(fabric.TOOL), 'setup',
                 '--any-source', 'eth0')
        running = [
            subprocess.Popen((*words, '--vip', f'203.0.113.{number}'))
            for number in range(20, 28)]
        self.assertEqual([0] * 8, [one.wait() for one in running])
        vips = json.loads(self.tool('show', '--json', 'eth0'))['vip']
        self.assertEqual({'127.0.0.1', '::1', *vips}, self.addresses())
