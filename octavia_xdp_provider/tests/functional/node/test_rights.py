# SPDX-License-Identifier: Apache-2.0
"""The capabilities of the systemd units are enough for what they start."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

from octavia_xdp_provider.tests.functional.support import private_node

UNITS = pathlib.Path(__file__).parents[4] / 'deploy/systemd'
OPEN = '''
import sys
from octavia_xdp_provider.node import datapath
pins, lock, library, *words = sys.argv[1:]
node = datapath.Datapath(pins, lock, create=create, services_max=16,
                         members_max=64, slots_max=1009, library=library)
key = datapath.Key('192.0.2.10', 'TCP', 80)
'''
AGENT = 'create = True' + OPEN + '''
node.set_services({key: (datapath.Settings(slots=1009),
                         [datapath.Member('10.1.0.1', check=1)])})
node.attach(int(words[0]))
'''
# Comes and goes, with a wait for packets in between.
CHANGES = 'create = True' + OPEN + '''
other = key._replace(port=81)
wanted = {other: (datapath.Settings(slots=1009),
                  [datapath.Member('10.1.0.2', check=2)])}
node.set_services(wanted)
node.delete_services(wanted)
'''
HANDLER = 'create = False' + OPEN + '''
assert node.apply_health([(1, words[0] == 'up')]) == 1
assert not node.faults()
'''


class TestRights(private_node.TwoNamespaces):

    def run_as(self, unit, script, *words, **environment):
        """Run a script with the capabilities of a unit."""
        text = (UNITS / f'octavia-xdp-{unit}.service').read_text()
        names = re.search('^CapabilityBoundingSet=(.*)$', text, re.M)[1]
        kept = ','.join(['-all', *(
            f'+{name.removeprefix("CAP_").lower()}'
            for name in names.split())])
        with self.inside(self.node):
            return subprocess.run(
                ['setpriv', '--bounding-set', kept, '--no-new-privs', '--',
                 sys.executable, '-c', script, self.pins, self.lock,
                 private_node.library_path(), *words],
                env={**os.environ, **environment},
                capture_output=True, text=True, timeout=60)

    def assert_works(self, *arguments):
        done = self.run_as(*arguments)
        self.assertEqual(0, done.returncode, done.stderr)

    def agent(self):
        with self.inside(self.node):
            index = socket.if_nametoindex('up0')
        self.assert_works('agent', AGENT, str(index))
        return private_node.command('ip', '-n', self.node, '-d', 'link',
                                     'show', 'up0')

    def test_a_restart_of_the_agent_changes_nothing(self):
        first = self.agent()
        self.assertIn('prog/xdp id', first)
        self.assertEqual(first, self.agent())

    def test_the_handler_repairs_what_a_death_left(self):
        self.agent()
        deaths = 0
        for step in range(1, 20):
            done = self.run_as(
                'agent', CHANGES, KILL_AT=str(step),
                LD_PRELOAD=f'{private_node.BUILD}/tests/inject.so')
            self.assert_works('result-handler', HANDLER,
                              'up' if step % 2 else 'down')
            if done.returncode != -signal.SIGKILL:
                break
            deaths += 1
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertGreater(deaths, 1)
