# SPDX-License-Identifier: Apache-2.0
"""Members and LB nodes change together, and nobody's connection breaks.

The same waves without second chances, or without NAT's peers, break some: what
they are for is seen.
"""

import os

from oslotest import base

from bench.engine import alone
from bench.hitless import bed
from bench.scenarios import model

CONNECTIONS, LATE = 300, 150


class TestHitless(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')
        if not bed.has_hash_seed():
            self.skipTest('the kernel has no seed of multipath routes (6.11)')

    def run_waves(self, name, waves, **settings):
        figures = alone.run(model.Measure('hitless', settings={
            'run': name, 'waves': [waves], 'members': 6,
            'connections': CONNECTIONS, 'late': LATE, 'per_second': 2000.0,
            **settings}), 'xdp')
        return figures[0].details['software']

    def assert_nothing_broke(self, run):
        self.assertEqual((0, 0), (run['broken'], run['not_opened']), run)
        self.assertEqual(0, run['beyond'], run)
        self.assertGreater(run['handed_on'], 0)
        self.assertGreaterEqual(run['connections'], CONNECTIONS)

    def test_connections_live_where_they_break_without_a_second_chance(self):
        run, without = self.run_waves('gue', 'added', compare=True)
        self.assert_nothing_broke(run)
        self.assertFalse(without['second_chance'])
        self.assertEqual(
            {name: run[name] for name in ('opened', 'changes')},
            {name: without[name] for name in ('opened', 'changes')})
        self.assertGreater(without['broken'], 0, without)
        self.assertEqual({'Connection reset by peer': without['broken']},
                         without['why'])

    def test_only_connections_of_a_dead_member_end(self):
        run, = self.run_waves('srv6', 'died', modes=['closed'],
                              layouts=['build'])
        self.assert_nothing_broke(run)
        self.assertGreater(run['broken_of_dead_members'], 0)
        self.assertLess(run['broken_of_dead_members'], run['opened'] / 3)

    def test_nat_nodes_are_drained_and_keep_their_connections(self):
        run, without = self.run_waves('nat', 'added', compare=True)
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
