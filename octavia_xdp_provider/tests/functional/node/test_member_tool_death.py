# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-member, killed at any call, and several at once: needs root."""

import bisect
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import uuid

from lab import namespaces
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import member_tool
from octavia_xdp_provider.tests.support import form

FULL = member_tool.FULL
OTHER_VIP = member_tool.OTHER_VIP
RUN = pathlib.Path('/run')
BOOT = pathlib.Path('/proc/sys/kernel/random/boot_id')
# From linux/socket.h; the socket module lacks it.
SO_NETNS_COOKIE = 71
# More than there are.
PLACES_MAX = 1 << 10
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

    def first_with_qdisc(self, prepare):
        """The first place at which setup has made its qdisc already."""
        def has_qdisc(number):
            prepare()
            self.killed(number, *FULL)
            return 'clsact' in self.state()['qdisc']
        places = range(1, PLACES_MAX)
        place = places[bisect.bisect_left(places, True, key=has_qdisc)]
        prepare()
        return place

    def test_setup_then_remove(self):
        before = self.state()

        def remove():
            self.tool('remove', 'eth0')
            self.assertEqual(before, self.state())
        places = self.sweep(FULL, remove, remove, form.repeats(8, 1))
        self.assertGreater(places, 20)

    @form.in_long_form
    def test_setup_then_remove_though_another_namespace_was_set_up(self):
        """The next process repairs what a killed one left."""
        before, halfway = self.state(), []

        def prepare():
            self.tool('remove', 'eth0')

        def elsewhere_then_remove():
            state = self.state()
            if 'clsact' in state['qdisc'] and not any(state['filters']):
                halfway.append(state)
                for words in (('setup', '--any-source', '--tc', 'gw0'),
                              ('remove', 'gw0')):
                    self.run_in(self.client, str(fabric.TOOL), *words)
            prepare()
            self.assertEqual(before, self.state())
        if form.LONG:
            self.sweep(FULL, prepare, elsewhere_then_remove)
        else:
            # Only between the qdisc and its first filter.
            self.killed(self.first_with_qdisc(prepare), *FULL)
            elsewhere_then_remove()
        self.assertTrue(halfway)

    @form.in_long_form
    def test_somebody_elses_qdisc_stays_once_the_own_one_is_gone(self):
        def again():
            self.tool('remove', 'eth0')
            self.qdisc('add')
            self.tool('remove', 'eth0')
            self.qdisc('del')
        self.sweep(FULL, lambda: None, again, form.repeats(8, 1))

    def test_a_note_of_an_earlier_boot_does_not(self):
        """Cookies of namespaces come again with each boot."""
        with namespaces.entered(self.member), socket.socket() as any_socket:
            cookie, = struct.unpack('Q', any_socket.getsockopt(
                socket.SOL_SOCKET, SO_NETNS_COOKIE, 8))
        note = RUN / (f'octavia-xdp-member.clsact-{cookie}-'
                      f'{self.link()["ifindex"]}')
        for boot, is_gone in ((BOOT.read_text(), True),
                              (str(uuid.uuid4()), False)):
            self.check_note(note, boot, is_gone)
            self.assertFalse(note.exists())

    def check_note(self, path, text, is_gone):
        """A qdisc that has a record but no program is handled."""
        before = self.state()
        self.qdisc('add')
        path.write_text(text)
        self.tool('remove', 'eth0')
        if not is_gone:
            self.qdisc('del')
        self.assertEqual(before, self.state())

    def qdisc(self, action):
        """Change the qdisc as another program would."""
        self.run_in(self.member, 'tc', 'qdisc', action, 'dev', 'eth0',
                    'clsact')

    @form.in_long_form
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
        places = self.sweep(other, prepare, again, form.repeats(8, 1))
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
        self.assertEqual([0] * 8, [process.wait() for process in running])
        vips = json.loads(self.tool('show', '--json', 'eth0'))['vip']
        self.assertEqual({'127.0.0.1', '::1', *vips}, self.addresses())
