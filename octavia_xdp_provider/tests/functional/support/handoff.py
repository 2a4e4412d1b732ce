# SPDX-License-Identifier: Apache-2.0
"""The real checker, the real result handler, real tables, and servers.

Servers of our own say what is true, and somebody always watches that none
that is up is taken out.
"""

import contextlib
import json
import os
import pathlib
import random
import selectors
import socket
import subprocess
import sys
import threading
import time

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import private_node

ROOT = pathlib.Path(__file__).parents[4]
CHECKER_VARIABLE = 'OCTAVIA_XDP_HC'
SERVICES = 4
# A service's first member belongs to a server that is always up.
MEMBERS = 3
STEADY = range(0, SERVICES * MEMBERS, MEMBERS)
OTHERS = [number for number in range(SERVICES * MEMBERS)
          if number not in STEADY]


def checker_path():
    return pathlib.Path(
        os.environ.get(CHECKER_VARIABLE) or
        ROOT / 'build/bin/octavia-xdp-hc')


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
            for key, _ in self._selector.select(0.1):
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

    def stopped(self):
        """Whether SIGSTOP has taken effect on every thread."""
        tasks = pathlib.Path(f'/proc/{self._child.pid}/task')
        return all(
            (task / 'stat').read_text().rpartition(')')[2].split()[0] == 'T'
            for task in tasks.iterdir())

    def kill(self):
        self._child.kill()
        self._child.wait()

    def restart(self):
        self.kill()
        self.start()


class Handoff(private_node.PrivateState):

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
        """The key of a server's check."""
        return number + 1

    def deciding(self, number):
        """The key that decides a member's state."""
        return self.check(number)

    def fill(self):
        for service in range(SERVICES):
            first = service * MEMBERS
            self.datapath.set_service(
                datapath.Key(private_node.VIP, 'TCP', 80 + service),
                [datapath.Member(f'10.1.0.{number + 1}',
                                 check=self.deciding(number))
                 for number in range(first, first + MEMBERS)],
                datapath.Settings(slots=private_node.SLOTS))

    def write_checks(self):
        checks = [{
            'key': f'{self.check(number):016x}', 'type': 'tcp',
            'address': address, 'port': port, 'delay': 1, 'timeout': 1,
            'rise': 1, 'fall': 1,
        } for number, (address, port) in enumerate(self.servers.addresses)]
        (self.folder / 'checks.json').write_text(
            json.dumps({'version': 1, 'checks': checks, **self.together()}))

    def together(self):
        """For tests that join checks: more of the checks file."""
        return {}

    def write_configuration(self):
        (self.folder / 'conf').write_text(
            f'[agent]\nrun_directory = {self.folder}\n[datapath]\n'
            f'library = {private_node.library_path()}\n'
            f'pin_directory = {self.pins}\n')

    def found(self):
        """What the tables say: whether each server's member is up."""
        numbers = {self.deciding(number): number
                   for number in range(SERVICES * MEMBERS)}
        return {numbers[member.check]: member.healthy
                for service in self.datapath.services()
                for member in self.datapath.members(service.key)}

    def truth(self):
        return {number: self.servers.up(number)
                for number in range(SERVICES * MEMBERS)}

    def wait_for_truth(self):
        self.wait(lambda: f'agreement of {self.found()} with {self.truth()}\n'
                          f'{self.logs()}',
                  lambda: self.found() == self.truth())
        self.assertEqual([], self.datapath.faults())

    def watch(self):
        """A server that is up must never be out of its table.

        One that is stays so until its next check, a second later.
        """
        while self.watching:
            states = self.found()
            self.false_downs += [number for number in STEADY
                                 if not states[number]]
            self.looks += 1
            time.sleep(0.05)

    def logs(self):
        return '\n'.join(path.read_text()[-4000:]
                         for path in sorted(self.folder.glob('*.log')))

    def assert_no_false_down(self):
        self.wait('watcher of the tables', lambda: self.looks > 10)
        self.assertEqual([], self.false_downs, self.logs())

    def flip(self, count=2):
        for number in self.random.sample(OTHERS, count):
            self.servers.flip(number)

    def pause(self, most):
        time.sleep(self.random.uniform(0, most))
