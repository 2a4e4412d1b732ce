# SPDX-License-Identifier: Apache-2.0
"""Members and LB nodes change together, and nobody's connection breaks.

The same waves without second chances, or without NAT's peers, break some: what
they are for is seen.
"""

import json
import os
import pathlib
import subprocess
import sys

import fixtures
from oslotest import base

from bench.hitless import bed
from lab import paths

CONNECTIONS, LATE = 300, 150
# Takes the node over, and gives it back.
OTHER_LAYOUT = paths.LIBRARY.parent / 'layout-1001' / paths.LIBRARY.name


class TestHitless(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')
        if not bed.has_hash_seed():
            self.skipTest('the kernel has no seed of multipath routes (6.11)')
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.output = folder / 'hitless.json'

    def run_waves(self, *words):
        done = subprocess.run(
            [sys.executable, '-m', 'bench.hitless', '--members', '6',
             '--connections', str(CONNECTIONS), '--late', str(LATE),
             '--per-second', '2000', '--output', self.output, *words],
            cwd=paths.CHECKOUT, text=True, capture_output=True)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(self.output.read_text())['runs']

    def assert_nothing_broke(self, run):
        self.assertEqual((0, 0), (run['broken'], run['not_opened']), run)
        self.assertEqual(0, run['beyond'], run)
        self.assertGreater(run['handed_on'], 0)
        self.assertGreaterEqual(run['connections'], CONNECTIONS)

    def test_connections_live_where_they_break_without_a_second_chance(self):
        run, without = self.run_waves(
            '--runs', 'gue', '--waves', 'added',
            '--library', str(paths.LIBRARY), str(OTHER_LAYOUT), '--compare')
        self.assert_nothing_broke(run)
        self.assertFalse(without['second_chance'])
        self.assertEqual(
            {name: run[name] for name in ('opened', 'changes')},
            {name: without[name] for name in ('opened', 'changes')})
        self.assertGreater(without['broken'], 0, without)
        self.assertEqual({'Connection reset by peer': without['broken']},
                         without['why'])

    def test_only_connections_of_a_dead_member_end(self):
        run, = self.run_waves('--runs', 'srv6', '--waves', 'died', '--modes',
                              'closed')
        self.assert_nothing_broke(run)
        self.assertGreater(run['broken_of_dead_members'], 0)
        self.assertLess(run['broken_of_dead_members'], run['opened'] / 3)

    def test_nat_nodes_are_drained_and_keep_their_connections(self):
        run, without = self.run_waves(
            '--runs', 'nat', '--waves', 'added',
            '--library', str(paths.LIBRARY), str(OTHER_LAYOUT), '--compare')
        self.assert_nothing_broke(run)
        self.assertEqual(('nat', 1), (run['encapsulation'], run['drains']))
        # Those of a node that fails are what its peers cannot save.
        self.assertGreater(run['broken_of_failed_nodes'], 0)
        self.assertLess(run['broken_of_failed_nodes'], run['opened'] / 2)
        self.assertEqual({'of failed nodes: Connection reset by peer':
                          run['broken_of_failed_nodes']}, run['why'])
        self.assertEqual((False, 0), (without['peers'],
                                      without['handed_on']))
        self.assertGreater(without['broken'], run['connections'] / 4, without)
