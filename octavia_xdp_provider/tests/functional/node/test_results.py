# SPDX-License-Identifier: Apache-2.0
"""The hand-off from the health checker to the tables, while both are killed.

Checker, result handler and tables are real. Whatever happens in between, a
server that is up is never taken out, and afterwards the tables say what is
true. Needs root.
"""

import json
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

from lab import paths
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.support import form

SERVICES = 4
# A service's first member belongs to a server that is always up.
MEMBERS = 3
NUMBERS = range(SERVICES * MEMBERS)
STEADY = NUMBERS[::MEMBERS]
OTHERS = [number for number in NUMBERS if number not in STEADY]


class Process:
    """A program that can be killed, and is started again."""

    def __init__(self, log, *words):
        self._log = log
        self._words = [str(word) for word in words]
        self.start()

    def start(self):
        with open(self._log, 'a') as log:
            self._child = subprocess.Popen(
                self._words, cwd=paths.CHECKOUT, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)

    def kill(self):
        self._child.kill()
        self._child.wait()

    def restart(self):
        self.kill()
        self.start()


class TestKills(private_node.PrivateState):

    def setUp(self):
        super().setUp()
        if not paths.HEALTH_CHECKER.exists():
            self.skipTest(f'{paths.HEALTH_CHECKER} is not built')
        self.random = random.Random(self.id())
        self.folder = pathlib.Path(self.lock).parent
        queue = self.folder / 'queue'
        queue.mkdir()
        self.addresses = [('127.0.0.1', 0)] * len(NUMBERS)
        self.servers = {}
        self.addCleanup(lambda: [server.close() for server in
                                 self.servers.values()])
        self.flip(NUMBERS)
        self.datapath = self.open(lock_file=str(self.folder / 'datapath.lock'))
        self.fill()
        self.checker = self.process(
            'checker', paths.HEALTH_CHECKER, 'run', '--checks',
            self.folder / 'checks.json', '--queue', queue)
        self.handler = self.process(
            'handler', sys.executable, '-m',
            'octavia_xdp_provider.cmd.result_handler', '--config-file',
            self.folder / 'conf')
        self.wait_for_truth()
        self.false_downs, self.looks = [], 0
        self.watching = True
        watcher = threading.Thread(target=self.watch)
        watcher.start()
        self.addCleanup(watcher.join)
        self.addCleanup(setattr, self, 'watching', False)

    def process(self, name, *words):
        started = Process(self.folder / f'{name}.log', *words)
        self.addCleanup(started.kill)
        return started

    def fill(self):
        """Services, their checks, and the handler's configuration."""
        for service in range(SERVICES):
            self.datapath.set_service(
                datapath.Key(private_node.VIP, 'TCP', 80 + service),
                [datapath.Member(f'10.1.0.{number + 1}', check=number + 1)
                 for number in NUMBERS[service * MEMBERS:][:MEMBERS]],
                datapath.Settings(slots=private_node.SLOTS))
        (self.folder / 'checks.json').write_text(json.dumps({
            'version': 1, 'checks': [{
                'key': f'{number + 1:016x}', 'type': 'tcp',
                'address': address, 'port': port, 'delay': 1, 'timeout': 1,
                'rise': 1, 'fall': 1,
            } for number, (address, port) in enumerate(self.addresses)]}))
        (self.folder / 'conf').write_text(
            f'[agent]\nrun_directory = {self.folder}\n[datapath]\n'
            f'library = {private_node.library_path()}\n'
            f'pin_directory = {self.pins}\n')

    def flip(self, numbers=None):
        """Take servers down that are up, and the reverse.

        The kernel accepts connections; a test makes fewer than it queues.
        """
        for number in numbers or self.random.sample(OTHERS, 2):
            if number in self.servers:
                self.servers.pop(number).close()
            else:
                server = socket.create_server(self.addresses[number],
                                              backlog=4096)
                self.servers[number] = server
                self.addresses[number] = server.getsockname()

    def found(self):
        """Return whether the member of each server is up in the tables."""
        return {member.check - 1: member.healthy
                for service in self.datapath.services()
                for member in self.datapath.members(service.key)}

    def wait_for_truth(self):
        truth = {number: number in self.servers for number in NUMBERS}
        self.wait(lambda: f'agreement of {self.found()} with {truth}\n'
                          f'{self.logs()}', lambda: self.found() == truth)
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

    def pause(self, most):
        time.sleep(self.random.uniform(0, most))

    def test_either_killed_loses_no_result(self):
        for _ in range(form.repeats(2, 6)):
            self.flip()
            for _ in range(4):
                self.pause(0.4)
                self.random.choice((self.checker, self.handler)).restart()
            self.wait_for_truth()
        self.assert_no_false_down()

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
