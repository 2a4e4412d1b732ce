# SPDX-License-Identifier: Apache-2.0
"""The command with real processes: many at once."""

import pathlib

import fixtures

from octavia_xdp_provider.tests.functional.testbed import command
from octavia_xdp_provider.tests.unit import base

OWNERS = tuple(f'owner{number}' for number in range(8))


class TestCommand(base.TestCase):

    def setUp(self):
        super().setUp()
        self.bed = command.Command(
            pathlib.Path(self.useFixture(fixtures.TempDir()).path))

    def run_bed(self, *words, status=0, owner='alice'):
        seen, said = self.bed.run(*words, owner=owner)
        self.assertEqual(status, seen, said)
        return said

    def at_once(self, *wanted):
        """(status, output) of processes that are started at once."""
        processes = [self.bed.start(
            'reserve', *machines, '--purpose', 'a race', owner=owner)
            for owner, machines in wanted]
        said = [process.communicate(timeout=300)[0] for process in processes]
        return [(process.returncode, text) for process, text
                in zip(processes, said, strict=True)]

    def test_of_many_at_once_exactly_one_wins(self):
        # The database does not exist yet.
        ended = self.at_once(*((owner, ['lb1']) for owner in OWNERS))
        winners = [owner for owner, (status, _)
                   in zip(OWNERS, ended, strict=True) if status == 0]
        self.assertEqual(1, len(winners), ended)
        for status, said in ended:
            if status:
                self.assertEqual(1, status, said)
                self.assertIn(f'lb1 is taken by {winners[0]} until', said)
        self.assertIn(winners[0], self.run_bed('list'))

    def test_of_several_machines_nobody_has_a_part(self):
        ended = self.at_once(*(
            (owner, machines) for owner, machines in zip(
                OWNERS, [['gen1', 'lb1'], ['lb1', 'lb2'], ['lb2', 'gen1']] * 2,
                strict=False)))
        won = [status for status, _ in ended].count(0)
        self.assertEqual(1, won, ended)
        rows = self.run_bed('list').splitlines()[1:]
        self.assertEqual(3, len(rows))
        self.assertEqual(2, sum('a race' in row for row in rows))

    def test_from_reserve_to_the_log(self):
        self.assertIn('lease 1: lb1, lb2 for alice until', self.run_bed(
            'reserve', 'lb1', 'lb2', '--purpose', 'rates', '--hours', '2'))
        self.assertIn('lb1 is taken by alice', self.run_bed(
            'reserve', 'lb1', '--purpose', 'x', owner='bob', status=1))
        self.run_bed('renew', '1', owner='bob', status=1)
        self.run_bed('renew', '1')
        self.run_bed('sync')
        self.run_bed('release', '1')
        log = self.run_bed('log')
        self.assertEqual(
            ['reserve', 'renew', 'release'],
            [word for line in log.splitlines() for word in line.split()
             if word in ('reserve', 'renew', 'release')])
        self.assertEqual(log.splitlines()[-1:],
                         self.run_bed('log', '--last', '1').splitlines())
        self.assertIn('"-1" is no number of entries', self.run_bed(
            'log', '--last=-1', status=2))
        self.assertIn('free', self.run_bed('list'))
        self.assertNotIn('alice', self.run_bed('list'))

    def test_a_wrong_inventory_is_shown_with_its_line(self):
        path = self.bed.folder / 'inventory.yaml'
        path.write_text('machines:\n  a: {role: toaster, address: 192.0.2.1}')
        self.assertIn(f'{path}:2: ', self.run_bed('list', status=1))
