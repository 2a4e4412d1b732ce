# SPDX-License-Identifier: Apache-2.0
"""The result handler on a real directory of real queue files."""

import errno
import os
import time
from unittest import mock

from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.health import results
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit.result_handler import handling

BOOT = handling.BOOT
UP = handling.UP
DOWN = handling.DOWN
record = handling.record


class TestResultHandler(handling.HandlerTestCase):

    def test_slots_age_with_each_look_at_everything(self):
        for rescan, ticks in ((False, 0), (True, 1), (False, 1), (True, 2)):
            self.step(rescan)
            self.assertEqual(ticks, self.datapath.ticks)
        sample = self.handler.metrics.registry.get_sample_value
        self.assertEqual(20, sample('octavia_xdp_open_slots'))
        for name, value in (('octavia_xdp_outcome_packets_total', 14),
                            ('octavia_xdp_outcome_bytes_total', 1400)):
            self.assertEqual(value, sample(name, {'outcome': 'drop_rate'}))
            self.assertIsNone(sample(name, {'outcome': 'forwarded'}))

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
        rejected = sorted(os.listdir(f'{self.directory}/rejected'))
        self.assertEqual(2, len(rejected))
        with open(f'{self.directory}/rejected/{rejected[1]}') as file:
            self.assertIn('torn', file.read())
        self.assertEqual(1, self.value('rejected_files_total',
                                       reason='torn'))

    def test_foreign_file_is_set_aside(self):
        self.write('README', b'hello')
        self.delta(1, record(5, UP))
        self.assertEqual({5: True}, self.step())
        self.assertIn('README', os.listdir(f'{self.directory}/rejected'))

    def test_rejected_file_is_healed_by_the_next_snapshot(self):
        self.write(queue_file.delta_name(BOOT, 1), b'OXPQ nonsense')
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

    def test_new_boot_starts_with_its_snapshot(self):
        self.delta(1, record(5, UP), record(6, UP))
        self.step()
        self.snapshot(0, record(5, DOWN), boot=BOOT + 1)
        self.delta(1, record(7, UP), boot=BOOT + 1)
        self.step()
        self.assertEqual({5: False, 7: True}, self.datapath.applied[-1])

    def test_delta_of_an_older_boot_changes_nothing(self):
        self.snapshot(0, record(5, DOWN), boot=BOOT + 1)
        self.step()
        self.delta(1, record(5, UP))
        self.assertEqual({5: False}, self.step())
        self.assertEqual([], self.pending())

    def test_dropped_checks_are_forgotten(self):
        self.snapshot(0)
        self.delta(1, record(5, UP), record(6, UP))
        self.step()
        self.snapshot(2, record(5, UP, 1))
        self.step()
        self.assertEqual({5, 6}, set(self.handler._results.last))
        self.now += results.PRUNE_S
        self.step()
        self.assertEqual({5}, set(self.handler._results.last))

    def test_unknown_is_not_applied(self):
        self.delta(1, record(5, queue_file.State.UNKNOWN))
        self.assertEqual({}, self.step())

    def test_files_stay_until_they_are_applied(self):
        self.delta(1, record(5, UP))
        self.handler._open = lambda: (_ for _ in ()).throw(OSError('gone'))
        self.assertRaises(OSError, self.handler.step)
        self.assertEqual(1, len(self.pending()))
        self.restart()
        self.assertEqual({5: True}, self.step())

    def test_wakeup_applies_changed_results_only(self):
        self.snapshot(3, *(record(key, UP, key) for key in (1, 2, 3)))
        self.step()
        self.delta(4, record(2, DOWN))
        self.step(rescan=False)
        self.delta(5, record(3, DOWN))
        self.step()
        self.assertEqual([{1: True, 2: True, 3: True}, {2: False},
                          {3: False}], self.datapath.applied)

    def test_several_deltas_are_applied_at_once(self):
        self.snapshot(1, record(5, UP, 1))
        self.step()
        for first in range(2, 12):
            self.delta(first, record(first + 10, UP))
        self.delta(12, record(5, DOWN))
        self.step(rescan=False)
        self.assertEqual(2, len(self.datapath.applied))
        self.assertIs(False, self.datapath.state[5])
        self.assertEqual(1, self.value('files_total', kind='snapshot'))

    def test_changed_services_get_everything(self):
        self.delta(1, record(5, UP), record(6, DOWN))
        self.step()
        self.datapath.services[1] = 7
        self.step(rescan=False)
        self.assertEqual(1, len(self.datapath.applied))
        self.step()
        self.assertEqual({5: True, 6: False}, self.datapath.applied[1])

    def test_failure_is_followed_by_everything(self):
        self.delta(1, record(5, UP))
        self.step()
        self.delta(2, record(6, UP))
        self.datapath.failure = datapath.DatapathError(errno.ESTALE, 'gone')
        self.assertRaises(datapath.DatapathError, self.step)
        self.assertEqual(1, len(self.pending()))
        self.datapath.failure = None
        self.step(rescan=False)
        self.assertEqual({5: True, 6: True}, self.datapath.applied[-1])
        self.assertEqual([], self.pending())

    def test_worker_ends_when_another_library_took_over(self):
        def foreign():
            raise datapath.DatapathError(errno.EPROTO, 'of layout 3')
        self.delta(1, record(5, UP))
        self.handler._files.open_datapath = foreign
        self.assertEqual(1, self.handler.run())
        # nothing of the queue is lost for the next one
        self.assertEqual(1, len(self.pending()))

    def test_late_snapshot_fills_the_gap(self):
        self.delta(1, record(5, UP))
        self.step()
        self.snapshot(1, record(5, UP, 1))
        self.delta(4, record(7, UP))
        self.step(rescan=False)
        self.assertEqual({5: True, 7: True}, self.datapath.state)
        self.snapshot(4, record(5, DOWN, 2), record(6, UP, 3),
                      record(7, UP, 4))
        self.step(rescan=False)
        self.assertEqual({5: False, 6: True, 7: True}, self.datapath.state)

    def test_snapshot_is_read_once(self):
        self.snapshot(1, record(5, UP, 1))
        for _ in range(3):
            self.step()
        self.assertEqual(1, self.value('files_total', kind='snapshot'))

    def test_unreadable_snapshot_is_set_aside(self):
        self.snapshot(1, record(5, UP, 1))
        with open(f'{self.queue}/snapshot', 'r+b') as file:
            file.truncate(40)
        self.delta(2, record(6, UP))
        self.assertEqual({6: True}, self.step())
        self.assertEqual(1, self.value('rejected_files_total',
                                       reason='torn'))
        self.snapshot(2, record(5, UP, 1), record(6, UP, 2))
        self.assertEqual({5: True, 6: True}, self.step())

    def test_stretch_of_the_checker_is_exported(self):
        self.step()
        self.assertEqual(0, self.value('checker_stretch'))
        for percent in (100, 250):
            self.write('snapshot', queue_file.encode(
                queue_file.Kind.SNAPSHOT, BOOT, 0, 0, [], percent))
            self.step()
            self.assertEqual(percent / 100, self.value('checker_stretch'))

    def test_latency_of_what_changed(self):
        def timed(key, state, age):
            return record(key, state)._replace(
                time_ns=time.time_ns() - int(age * 1e9))

        self.delta(1, timed(5, UP, 0.07), timed(6, UP, 20))
        self.step()
        self.delta(3, timed(5, UP, 0.07))
        self.step()
        name = 'latency_seconds_bucket'
        self.assertEqual(0, self.value(name, le='0.05'))
        self.assertEqual(1, self.value(name, le='0.1'))
        self.assertEqual(1, self.value(name, le='10.0'))
        self.assertEqual(2, self.value(name, le='+Inf'))
        self.assertEqual(2, self.value('latency_seconds_count'))


class Death(BaseException):
    """Ends the process like SIGKILL, without any cleanup."""


class TestDeath(handling.HandlerTestCase):
    """Killed at every step between the queue and the tables."""

    def die_at(self, step):
        """Let the handler die at a step; False if there are fewer."""
        rest = iter(range(step, 0, -1))

        def mortal(function):
            def call(*arguments, **more):
                if next(rest) == 1:
                    raise Death
                return function(*arguments, **more)
            return call
        queue = self.handler._queue
        with mock.patch.multiple(
                queue, scan=mortal(queue.scan), read=mortal(queue.read),
                snapshot=mortal(queue.snapshot),
                reject=mortal(queue.reject), remove=mortal(queue.remove)), \
            mock.patch.object(self.datapath, 'apply_health',
                              mortal(self.datapath.apply_health)):
            try:
                self.step()
            except Death:
                return True
            return False

    def test_death_at_every_step(self):
        deaths = 0
        for step in range(1, 100):
            self.datapath.state.clear()
            self.datapath.applied.clear()
            self.restart()
            first = 1 + 10 * step
            self.snapshot(first, record(5, UP, first - 1),
                          record(6, UP, first))
            self.delta(first + 1, record(6, DOWN))
            torn = self.delta(first + 2, record(7, DOWN), record(8, UP))
            with open(torn, 'r+b') as file:
                file.truncate(95)
            self.delta(first + 4, record(7, UP))
            died = self.die_at(step)
            deaths += died
            self.restart()
            self.step()
            # The gap of the torn file is filled by the next snapshot.
            self.snapshot(first + 4, record(5, UP, first - 1),
                          record(6, DOWN, first + 1),
                          record(7, UP, first + 4),
                          record(8, UP, first + 3))
            self.step()
            self.assertEqual({5: True, 6: False, 7: True, 8: True},
                             self.datapath.state)
            self.assertEqual([], self.pending())
            self.assertFalse(any(
                results.get(5) is False or results.get(7) is False
                for results in self.datapath.applied))
            if not died:
                break
        self.assertGreater(deaths, 8)
        self.assertFalse(died)
