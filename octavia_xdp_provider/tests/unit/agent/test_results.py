# SPDX-License-Identifier: Apache-2.0
"""The result handler on a real directory of real queue files."""

import os
import types

from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.agent import results
from octavia_xdp_provider.common import result_queue
from octavia_xdp_provider.tests.unit import base

BOOT = 1000
UP = result_queue.State.UP
DOWN = result_queue.State.DOWN


def record(key, state, sequence=0, verified=True):
    return result_queue.Record(
        key, sequence, 0, state, 0,
        result_queue.FLAG_VERIFIED if verified else 0, 0)


class FakeDatapath:

    def __init__(self):
        self.applied = []
        self.known = set()

    def services(self):
        return [types.SimpleNamespace(key='service')]

    def members(self, key):
        return [datapath.MemberState('198.18.10.11', 1, check, True, True,
                                     True, None) for check in self.known]

    def apply_health(self, wanted):
        self.applied.append(dict(wanted))
        return 1

    def close(self):
        pass


class TestResultHandler(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.create_tempfiles(
            [('x', '')])[0].rpartition('/')[0]
        self.queue = f'{self.directory}/queue'
        self.datapath = FakeDatapath()
        self.restart()

    def restart(self):
        self.handler = results.ResultHandler(self.load(
            f'[agent]\nrun_directory = {self.directory}\n'))
        self.handler._datapath = self.datapath

    def write(self, name, data):
        with open(f'{self.queue}/{name}', 'wb') as file:
            file.write(data)

    def delta(self, first, *records, boot=BOOT):
        records = [item._replace(sequence=first + index)
                   for index, item in enumerate(records)]
        self.write(result_queue.delta_name(boot, first), result_queue.encode(
            result_queue.Kind.DELTA, boot, first, first + len(records) - 1,
            records))

    def snapshot(self, last, *records, boot=BOOT):
        # As the health checker does: replaced, not rewritten.
        temporary = f'{self.queue}/.tmp-snapshot'
        with open(temporary, 'wb') as file:
            file.write(result_queue.encode(
                result_queue.Kind.SNAPSHOT, boot, 0, last, records))
        os.rename(temporary, f'{self.queue}/snapshot')

    def step(self):
        """What the datapath was given by one step."""
        self.handler.step()
        return self.datapath.applied[-1]

    def pending(self):
        return [name for name in os.listdir(self.queue)
                if name.endswith('.delta')]

    def test_deltas_in_order(self):
        self.delta(1, record(5, UP), record(6, UP))
        self.delta(3, record(5, DOWN))
        self.assertEqual({5: False, 6: True}, self.step())
        self.assertEqual([], self.pending())

    def test_snapshot_then_newer_deltas(self):
        self.snapshot(2, record(5, DOWN, 2), record(6, UP, 1))
        self.delta(2, record(5, UP))
        self.delta(3, record(6, DOWN))
        self.assertEqual({5: False, 6: False}, self.step())

    def test_gap_loads_the_snapshot(self):
        self.delta(1, record(5, UP))
        self.step()
        self.snapshot(4, record(5, DOWN, 3), record(6, UP, 4))
        self.delta(5, record(7, UP))
        self.assertEqual({5: False, 6: True, 7: True}, self.step())

    def test_torn_file_is_set_aside_and_the_next_applied(self):
        self.delta(1, record(5, UP))
        path = f'{self.queue}/{self.pending()[0]}'
        with open(path, 'r+b') as file:
            file.truncate(os.path.getsize(path) - 1)
        self.delta(2, record(6, UP))
        self.assertEqual({6: True}, self.step())
        rejected = sorted(os.listdir(f'{self.queue}/rejected'))
        self.assertEqual(2, len(rejected))
        with open(f'{self.queue}/rejected/{rejected[1]}') as file:
            self.assertIn('torn', file.read())
        self.assertEqual(1, self.handler._results.rejected['torn'])

    def test_foreign_file_is_set_aside(self):
        self.write('README', b'hello')
        self.delta(1, record(5, UP))
        self.assertEqual({5: True}, self.step())
        self.assertIn('README', os.listdir(f'{self.queue}/rejected'))

    def test_a_rejected_file_is_healed_by_the_next_snapshot(self):
        self.write(result_queue.delta_name(BOOT, 1), b'OXPQ nonsense')
        self.step()
        self.snapshot(1, record(5, DOWN, 1))
        self.assertEqual({5: False}, self.step())

    def test_restored_results_do_not_overrule_the_table(self):
        self.datapath.known = {5}
        self.snapshot(0, record(5, UP, verified=False),
                      record(6, UP, verified=False))
        self.assertEqual({6: True}, self.step())
        self.delta(1, record(5, UP))
        self.assertEqual({5: True, 6: True}, self.step())

    def test_a_new_boot_starts_with_its_snapshot(self):
        self.delta(1, record(5, UP), record(6, UP))
        self.step()
        self.snapshot(0, record(5, DOWN), boot=BOOT + 1)
        self.delta(1, record(7, UP), boot=BOOT + 1)
        self.assertEqual({5: False, 7: True}, self.step())

    def test_a_delta_of_an_older_boot_changes_nothing(self):
        self.snapshot(0, record(5, DOWN), boot=BOOT + 1)
        self.step()
        self.delta(1, record(5, UP))
        self.assertEqual({5: False}, self.step())
        self.assertEqual([], self.pending())

    def test_dropped_checks_are_forgotten(self):
        self.delta(1, record(5, UP), record(6, UP))
        self.step()
        self.snapshot(2, record(5, UP, 1))
        self.assertEqual({5: True}, self.step())

    def test_unknown_is_not_applied(self):
        self.delta(1, record(5, result_queue.State.UNKNOWN))
        self.assertEqual({}, self.step())

    def test_files_stay_until_they_are_applied(self):
        self.delta(1, record(5, UP))
        self.handler._datapath = None
        self.handler._open = lambda: (_ for _ in ()).throw(OSError('gone'))
        self.assertRaises(OSError, self.handler.step)
        self.assertEqual(1, len(self.pending()))
        self.restart()
        self.assertEqual({5: True}, self.step())
