# SPDX-License-Identifier: Apache-2.0
"""The hand-off from the health checker to the tables, while it is hurt.

The real checker, the real result handler and real tables; servers of our own
say what is true. Whatever happens in between, a server that is up is never
taken out, and afterwards the tables say what is true. Needs root.
"""

import contextlib
import json
import os
import pathlib
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time

from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.common import result_queue
from octavia_xdp_provider.tests.functional import test_datapath

ROOT = pathlib.Path(__file__).parents[3]
CHECKER_VARIABLE = 'OCTAVIA_XDP_HC'
SERVICES = 4
# A service's first member belongs to a server that is always up.
MEMBERS = 3
STEADY = range(0, SERVICES * MEMBERS, MEMBERS)
OTHERS = [number for number in range(SERVICES * MEMBERS)
          if number not in STEADY]
PATIENCE = 30


def checker_path():
    return pathlib.Path(
        os.environ.get(CHECKER_VARIABLE) or
        ROOT / 'hc-agent/target/release/octavia-xdp-hc')


class Servers:
    """Listeners that can be taken down and up again."""

    def __init__(self, count):
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._sockets = {}
        self.addresses = [('127.0.0.1', 0)] * count
        for number in range(count):
            self.start(number)
        self._running = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def start(self, number):
        listener = socket.create_server(self.addresses[number], backlog=512)
        listener.setblocking(False)
        self.addresses[number] = listener.getsockname()
        with self._lock:
            self._sockets[number] = listener
            self._selector.register(listener, selectors.EVENT_READ)

    def stop(self, number):
        with self._lock:
            listener = self._sockets.pop(number)
            self._selector.unregister(listener)
            listener.close()

    def flip(self, number):
        if number in self._sockets:
            self.stop(number)
        else:
            self.start(number)

    def up(self, number):
        return number in self._sockets

    def close(self):
        self._running = False
        self._thread.join()
        for number in list(self._sockets):
            self.stop(number)

    def _serve(self):
        while self._running:
            for key, _ in self._selector.select(0.01):
                with self._lock, contextlib.suppress(OSError, ValueError):
                    while True:
                        key.fileobj.accept()[0].close()


class Process:
    """A program that can be killed, and is started again."""

    def __init__(self, log, *words):
        self._log = log
        self._words = [str(word) for word in words]
        self._child = None
        self.start()

    def start(self):
        with open(self._log, 'a') as log:
            self._child = subprocess.Popen(
                self._words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)

    def signal(self, number):
        self._child.send_signal(number)

    def kill(self):
        self._child.kill()
        self._child.wait()

    def restart(self):
        self.kill()
        self.start()


class Handoff(test_datapath.PrivateState):

    def setUp(self):
        super().setUp()
        if not checker_path().exists():
            self.skipTest(f'{checker_path()} is not built')
        self.random = random.Random(self.id())
        self.folder = pathlib.Path(self.lock).parent
        self.queue = self.folder / 'queue'
        self.queue.mkdir()
        self.prepare_queue()
        self.servers = Servers(SERVICES * MEMBERS)
        self.addCleanup(self.servers.close)
        self.datapath = self.open(
            lock_file=str(self.folder / 'datapath.lock'))
        self.fill()
        self.write_checks()
        self.write_configuration()
        self.checker = Process(
            self.folder / 'checker.log', checker_path(), 'run', '--checks',
            self.folder / 'checks.json', '--queue', self.queue)
        self.addCleanup(self.checker.kill)
        self.handler = Process(
            self.folder / 'handler.log', sys.executable, '-m',
            'octavia_xdp_provider.cmd.result_handler', '--config-file',
            self.folder / 'conf')
        self.addCleanup(self.handler.kill)
        self.wait_for_truth()
        self.false_downs = []
        self.looks = 0
        self.watching = True
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()
        self.addCleanup(self.watcher.join)
        self.addCleanup(setattr, self, 'watching', False)

    def prepare_queue(self):
        """For tests that want another file system there."""

    @staticmethod
    def check(number):
        return number + 1

    def fill(self):
        for service in range(SERVICES):
            first = service * MEMBERS
            self.datapath.set_service(
                datapath.Key(test_datapath.VIP, 'TCP', 80 + service),
                [datapath.Member(f'10.1.0.{number + 1}',
                                 check=self.check(number))
                 for number in range(first, first + MEMBERS)],
                test_datapath.SLOTS)

    def write_checks(self):
        checks = [{
            'key': f'{self.check(number):016x}', 'type': 'tcp',
            'address': address, 'port': port, 'delay': 1, 'timeout': 1,
            'rise': 1, 'fall': 1,
        } for number, (address, port) in enumerate(self.servers.addresses)]
        (self.folder / 'checks.json').write_text(
            json.dumps({'version': 1, 'checks': checks}))

    def write_configuration(self):
        (self.folder / 'conf').write_text(
            f'[agent]\nrun_directory = {self.folder}\n[datapath]\n'
            f'library = {test_datapath.library_path()}\n'
            f'pin_directory = {self.pins}\n')

    def found(self):
        """What the tables say: whether each server's member is up."""
        states = {}
        for service in self.datapath.services():
            for member in self.datapath.members(service.key):
                states[member.check - 1] = member.healthy
        return states

    def truth(self):
        return {number: self.servers.up(number)
                for number in range(SERVICES * MEMBERS)}

    def wait_for_truth(self):
        self.wait_until(lambda: self.found() == self.truth(),
                        lambda: f'{self.found()} is not {self.truth()}')
        self.assertIsNone(self.datapath.verify())

    def wait_until(self, condition, text=lambda: ''):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end,
                            f'{text()}\n{self.logs()}')
            time.sleep(0.02)

    def watch(self):
        """A server that is up must never be out of its table."""
        while self.watching:
            states = self.found()
            self.false_downs += [number for number in STEADY
                                 if not states[number]]
            self.looks += 1
            time.sleep(0.005)

    def logs(self):
        return '\n'.join(path.read_text()[-4000:]
                         for path in sorted(self.folder.glob('*.log')))

    def assert_no_false_down(self):
        self.assertGreater(self.looks, 10)
        self.assertEqual([], self.false_downs, self.logs())

    def flip(self, count=2):
        for number in self.random.sample(OTHERS, count):
            self.servers.flip(number)

    def pause(self, most):
        time.sleep(self.random.uniform(0, most))


class TestKills(Handoff):

    def kill_in_turn(self, *victims):
        for _ in range(6):
            self.flip()
            for _ in range(4):
                self.pause(0.4)
                self.random.choice(victims).restart()
            self.wait_for_truth()
        self.assert_no_false_down()

    def test_the_checker(self):
        self.kill_in_turn(self.checker)

    def test_the_handler(self):
        self.kill_in_turn(self.handler)

    def test_either(self):
        self.kill_in_turn(self.checker, self.handler)

    def test_both_and_a_while_of_nobody(self):
        for _ in range(3):
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


class TestStops(Handoff):

    def test_the_checker_for_ten_seconds(self):
        for _ in range(2):
            self.checker.signal(signal.SIGSTOP)
            time.sleep(10)
            self.checker.signal(signal.SIGCONT)
            time.sleep(1.5)
            self.assert_no_false_down()
        self.checker.signal(signal.SIGSTOP)
        self.flip()
        time.sleep(2)
        self.checker.signal(signal.SIGCONT)
        self.wait_for_truth()
        self.assert_no_false_down()

    def test_the_handler(self):
        self.handler.signal(signal.SIGSTOP)
        for _ in range(3):
            self.flip()
            time.sleep(1.3)
        self.handler.signal(signal.SIGCONT)
        self.wait_for_truth()
        self.assert_no_false_down()


class TestFiles(Handoff):

    def pending(self):
        return sorted(self.queue.glob('*.delta'))

    def gather(self, count):
        """Let deltas pile up behind a handler that is stopped."""
        self.handler.signal(signal.SIGSTOP)
        while len(self.pending()) < count:
            before = len(self.pending())
            self.flip(1)
            self.wait_until(lambda before=before:
                            len(self.pending()) > before)
        return self.pending()

    def go_on(self):
        self.handler.signal(signal.SIGCONT)
        self.wait_for_truth()
        self.assert_no_false_down()
        self.wait_until(lambda: not self.pending())

    def rejected(self):
        return {path.name for path in (self.queue / 'rejected').iterdir()}

    def test_torn(self):
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

    def test_lost_and_exchanged(self):
        first, second, third = self.gather(3)[:3]
        first.unlink()
        spare = second.with_name('.tmp-spare')
        second.rename(spare)
        third.rename(second)
        spare.rename(third)
        self.go_on()
        self.assertLessEqual({second.name, third.name}, self.rejected())

    def test_an_old_file_comes_again(self):
        old = self.gather(2)[0]
        data = old.read_bytes()
        self.go_on()
        self.flip()
        self.wait_for_truth()
        old.write_bytes(data)
        self.wait_until(lambda: not old.exists())
        self.wait_for_truth()

    def test_of_another_time(self):
        """A file of a run that is long over must change nothing."""
        records = [result_queue.Record(
            self.check(number), 1 + index, 1, result_queue.State.DOWN, 1,
            result_queue.FLAG_VERIFIED, 0)
            for index, number in enumerate(STEADY)]
        path = self.queue / result_queue.delta_name(1, 1)
        path.write_bytes(result_queue.encode(
            result_queue.Kind.DELTA, 1, 1, len(records), records))
        self.wait_until(lambda: not path.exists())
        self.go_on()

    def test_torn_snapshot(self):
        self.handler.kill()
        snapshot = self.queue / 'snapshot'
        snapshot.write_bytes(snapshot.read_bytes()[:70])
        self.handler.start()
        self.flip()
        self.wait_for_truth()
        self.assert_no_false_down()


class TestFullDisk(Handoff):

    def prepare_queue(self):
        test_datapath.command('mount', '-t', 'tmpfs', '-o', 'size=64k',
                              'tmpfs', str(self.queue))
        self.addCleanup(test_datapath.command, 'umount', '-l',
                        str(self.queue))

    def test_full_for_a_while(self):
        for _ in range(2):
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
