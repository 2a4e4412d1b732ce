# SPDX-License-Identifier: Apache-2.0
"""kill -9 of one who takes a node over: needs root."""

import collections
import errno
import os
import signal
import time

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import upgrading
from octavia_xdp_provider.tests.support import form

# Steps from one death to the next.
STRIDE = form.repeats(8, 1)


class DeathCase(upgrading.WithPackets):
    """Up and down between this layout and another one."""

    OTHER = 1001

    def target(self):
        return (upgrading.LAYOUT if self.layout == self.OTHER
                else self.OTHER)

    def pinned_layout(self):
        """Return the library that opens it; the other one must refuse."""
        layouts = []
        with self.inside(self.node):
            for layout in (upgrading.LAYOUT, self.OTHER):
                try:
                    self.open(create=False,
                              library=self.libraries[layout]).close()
                except datapath.DatapathError as error:
                    self.assertEqual(errno.EPROTO, error.errno, error)
                else:
                    layouts.append(layout)
        self.assertEqual(1, len(layouts), layouts)
        return layouts[0]

    def assert_in_order(self):
        """It is of use, and all interfaces use what is pinned."""
        with self.open_layout() as opened:
            self.assertEqual([], opened.faults())
            opened.tick()
        self.assertFalse(self.upgrade(self.layout).changes)
        self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))

    def after_death(self):
        self.layout = self.pinned_layout()
        self.assert_in_order()

    def kill_before_every_step(self, after_death):
        """Every system call that changes something but single elements.

        In short form every STRIDE-th of them.

        :param after_death: called with the target of the dead one.
        :returns: how often the old state was in force, and the new one.
        """
        outcomes = collections.Counter()
        step = 1 - STRIDE
        with self.stream:
            while True:
                step += STRIDE
                target = self.target()
                process = self.child(target, kill_at=step)
                if process.wait() == 0:
                    break
                self.assertEqual(-signal.SIGKILL, process.returncode)
                after_death(target)
                outcomes[self.layout == target] += 1
        self.layout = self.pinned_layout()
        self.assertEqual(target, self.layout)
        self.assert_in_order()
        return outcomes[False], outcomes[True]


@form.in_long_form
class TestMapsHandedOver(DeathCase):

    def test_kill_before_each_step_leaves_one_state(self):
        old, new = self.kill_before_every_step(
            lambda target: self.after_death())
        self.assert_nothing_lost()
        self.assert_counted()
        # before and after the one moment
        self.assertGreater(old, 10 // STRIDE)
        self.assertGreater(new, 5 // STRIDE)


class TestMapsCopied(DeathCase):
    """Nothing that packets write is shared, and there are two interfaces.

    Packets that the new program counted are not in the old maps, when these
    stay in force.
    """

    OTHER = 1002
    UPLINKS = 2

    @form.in_long_form
    def test_kill_before_each_step_leaves_one_state(self):
        self.deaths = 0
        old, new = self.kill_before_every_step(self.next_opener)
        # flows in flight while an interface changes its program, there
        # and back
        self.assert_nothing_lost(moved=8 * (self.deaths + 1))
        service, members = (now - then for now, then in zip(
            self.packets(), self.before, strict=True))
        self.assertEqual(service, members)
        self.assertLessEqual(service, self.stream.sent)
        self.assertGreater(old, 10 // STRIDE)
        self.assertGreater(new, 5 // STRIDE)

    def next_opener(self, target):
        """The next process to open it differs from death to death."""
        self.deaths += 1
        kind = self.deaths % 3
        if kind == 0:
            self.after_death()
            return
        if kind == 1:
            # the same again, before anybody else has looked
            self.assertEqual(0, self.finish(target))
        else:
            # one who only wants to know what would happen
            self.dry_run(target)
        self.after_death()

    def finish(self, target):
        """The operator's second try, who does not know what is pinned."""
        self.layout = self.source_of(target)
        return self.child(target).wait()

    def dry_run(self, target):
        self.layout = self.source_of(target)
        self.assertEqual(0, self.child(target, dry_run=True).wait())

    def source_of(self, target):
        return (self.OTHER if target == upgrading.LAYOUT
                else upgrading.LAYOUT)

    def test_third_library_takes_over_after_a_death(self):
        """One that shares nothing with the two of the upgrade that died."""
        process = self.child(1002, link_updates='.S')
        with self.stream:
            self.wait_until_stopped(process)
            process.send_signal(signal.SIGKILL)
            process.wait()
            programs = self.tags()
            self.assertNotEqual(programs[0], programs[1])
            self.upgrade(1001)
            self.assertEqual(1, len(set(self.tags())))
            self.assert_in_order()
        self.assert_nothing_lost(moved=16)
        self.assertEqual(*(now - then for now, then in zip(
            self.packets(), self.before, strict=True)))

    @form.in_long_form
    def test_repair_that_dies_is_repaired_by_the_next(self):
        """Each one who opens the node dies a step later than the one before.

        What is half done is that of the first and of all of them.
        """
        code = ('import sys\n'
                'from octavia_xdp_provider.node import datapath\n'
                'datapath.Datapath(*sys.argv[1:3], create=False,'
                ' library=sys.argv[3]).close()')
        process = self.child(1002, link_updates='.S')
        with self.stream:
            self.wait_until_stopped(process)
            process.send_signal(signal.SIGKILL)
            process.wait()
            step = 1
            while True:
                opener = self.python(
                    code, self.libraries[upgrading.LAYOUT], KILL_AT=step,
                    LD_PRELOAD=f'{private_node.BUILD}/tests/inject.so')
                if opener.wait() == 0:
                    break
                self.assertEqual(-signal.SIGKILL, opener.returncode)
                step += 1
            self.assert_in_order()
        self.assertGreater(step, 5)
        self.assert_nothing_lost(moved=16)
        self.assertEqual(*(now - then for now, then in zip(
            self.packets(), self.before, strict=True)))

    def tags(self):
        return [text.split(' tag ')[1].split()[0] for text in self.program()]


class TestOwnerOfTheLock(DeathCase):
    """A take-over that is stopped halfway keeps everybody else waiting."""

    UPLINKS = 2

    def test_user_waits_until_the_owner_of_the_lock_has_died(self):
        process = self.child(1001, link_updates='.S')
        with self.stream:
            self.wait_until_stopped(process)
            user = self.python(
                'import sys\n'
                'from octavia_xdp_provider.node import datapath\n'
                'datapath.Datapath(*sys.argv[1:3], create=False,'
                ' library=sys.argv[3]).tick()', private_node.library_path())
            time.sleep(0.3)
            self.assertIsNone(user.poll())
            process.send_signal(signal.SIGKILL)
            process.wait()
            # it takes back what the killed upgrade has begun
            self.assertEqual(0, user.wait())
            self.assert_in_order()
        self.assert_nothing_lost()
        self.assert_counted()
