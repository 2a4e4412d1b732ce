# SPDX-License-Identifier: Apache-2.0
"""The hand-off from the health checker to the tables, while it is hurt.

Whatever happens in between, a server that is up is never taken out, and
afterwards the tables say what is true. Needs root.
"""

import contextlib
import signal
import time

from octavia_xdp_provider.tests.functional.support import handoff
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.support import form


class TestKills(handoff.Handoff):

    def kill_in_turn(self, *victims):
        for _ in range(form.repeats(2, 6)):
            self.flip()
            for _ in range(4):
                self.pause(0.4)
                self.random.choice(victims).restart()
            self.wait_for_truth()
        self.assert_no_false_down()

    def test_either_killed_loses_no_result(self):
        self.kill_in_turn(self.checker, self.handler)

    @form.in_long_form
    def test_changes_while_neither_runs_are_found(self):
        for _ in range(form.repeats(1, 3)):
            self.pause(0.5)
            self.handler.kill()
            self.flip()
            self.pause(1.5)
            self.checker.kill()
            self.flip()
            self.pause(0.5)
            self.handler.start()
            self.pause(0.5)
            self.checker.start()
            self.wait_for_truth()
        self.assert_no_false_down()


class TestFiles(handoff.Handoff):

    def pending(self):
        return sorted(self.queue.glob('*.delta'))

    def gather(self, count):
        """Let deltas pile up behind a handler that is stopped.

        :returns: those that it cannot have read before.
        """
        self.handler.signal(signal.SIGSTOP)
        self.wait('stop of the handler', self.handler.stopped)
        read = set(self.pending())
        fresh = []
        while len(fresh) < count:
            before = len(fresh)
            self.flip(1)
            self.wait('delta', lambda before=before: len(
                set(self.pending()) - read) > before)
            fresh = sorted(set(self.pending()) - read)
        return fresh

    def go_on(self):
        self.handler.signal(signal.SIGCONT)
        self.wait_for_truth()
        self.assert_no_false_down()
        self.wait('end of deltas', lambda: not self.pending())

    def rejected(self):
        rejected = self.queue.parent / 'rejected'
        return {path.name for path in rejected.iterdir()}

    def test_damaged_delta_is_rejected_and_made_good(self):
        for damage in range(3):
            path = self.random.choice(self.gather(3))
            data = bytearray(path.read_bytes())
            if damage == 0:
                del data[self.random.randrange(len(data)):]
            elif damage == 1:
                data[self.random.randrange(len(data))] ^= 1
            else:
                data[4] = 99  # the version
            path.write_bytes(data)
            self.go_on()
            self.assertIn(path.name, self.rejected())

    def test_torn_snapshot_is_made_good(self):
        self.handler.kill()
        snapshot = self.queue / 'snapshot'
        snapshot.write_bytes(snapshot.read_bytes()[:70])
        self.handler.start()
        self.flip()
        self.wait_for_truth()
        self.assert_no_false_down()


class TestConditions(handoff.Handoff):
    """Each member needs its own server and another one."""

    @staticmethod
    def partner(number):
        kind = (handoff.STEADY if number in handoff.STEADY
                else handoff.OTHERS)
        return kind[kind.index(number) - 1]

    def deciding(self, number):
        return 1000 + number

    def together(self):
        return {'conditions': [
            {'key': f'{self.deciding(number):016x}',
             'checks': [f'{self.check(one):016x}'
                        for one in (number, self.partner(number))]}
            for number in range(handoff.SERVICES * handoff.MEMBERS)]}

    def truth(self):
        return {number: self.servers.up(number)
                and self.servers.up(self.partner(number))
                for number in range(handoff.SERVICES * handoff.MEMBERS)}

    def test_both_servers_decide(self):
        for victim in (None, self.checker, self.handler) * 2:
            self.flip()
            if victim:
                self.pause(0.4)
                victim.restart()
            self.wait_for_truth()
        self.assert_no_false_down()


@form.in_long_form
class TestFullDisk(handoff.Handoff):

    def prepare_queue(self):
        private_node.command('mount', '-t', 'tmpfs', '-o', 'size=64k',
                              'tmpfs', str(self.queue))
        self.addCleanup(private_node.command, 'umount', '-l',
                        str(self.queue))

    def test_full_for_a_while(self):
        for _ in range(form.repeats(1, 2)):
            filler = self.queue / '.tmp-filler'
            with open(filler, 'wb', buffering=0) as file, \
                    contextlib.suppress(OSError):
                while file.write(bytes(512)):
                    pass
            self.flip()
            time.sleep(3)
            self.assert_no_false_down()
            filler.unlink()
            self.wait_for_truth()
        self.assert_no_false_down()
