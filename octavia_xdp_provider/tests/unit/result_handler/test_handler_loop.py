# SPDX-License-Identifier: Apache-2.0
"""Events that wake the result handler up, and its reactions."""

import errno
import os
import threading
from unittest import mock

from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.node import wakeup
from octavia_xdp_provider.result_handler import handler
from octavia_xdp_provider.tests.unit.result_handler import handling

BOOT = handling.BOOT
UP = handling.UP
DOWN = handling.DOWN
record = handling.record


class TestRun(handling.HandlerTestCase):
    """The loop around it."""

    def setUp(self):
        super().setUp()
        self.thread = threading.Thread(target=self.handler.run)
        self.addCleanup(self.end)
        self.thread.start()

    def end(self):
        self.handler.stop()
        self.thread.join()

    def wait_for(self, state):
        self.wait_until(lambda: self.datapath.state == state)

    def renamed(self, first, *records):
        path = self.delta(first, *records, name='.tmp-writer')
        os.rename(path, f'{self.queue}/{queue_file.delta_name(BOOT, first)}')

    def linked(self, first, *records):
        """There at once as a whole, but without the event of a rename."""
        path = self.delta(first, *records, name='.tmp-writer')
        os.link(path, f'{self.queue}/{queue_file.delta_name(BOOT, first)}')
        os.unlink(path)

    def test_rename_wakes_it(self):
        self.renamed(1, record(5, UP))
        self.wait_for({5: True})
        self.renamed(2, record(5, DOWN))
        self.wait_for({5: False})
        self.wait_until(lambda: not self.pending())

    def test_file_without_an_event_is_found(self):
        self.linked(1, record(5, UP))
        self.wait_for({5: True})

    def test_new_directory_is_watched(self):
        os.rename(self.queue, self.queue + '-old')
        self.renamed_when_made(record(5, UP))
        self.wait_for({5: True})

    def test_notification_compares_the_services_at_once(self):
        self.linked(1, record(5, UP))
        self.wait_for({5: True})
        with mock.patch.object(handler, 'RESCAN_S', 3600):
            # From the next look on it sleeps for an hour.
            before = self.datapath.looks

            def looks_twice():
                wakeup.notify(self.handler._files.handler_wakeup)
                return self.datapath.looks >= before + 2
            self.wait_until(looks_twice)
            self.datapath.state.clear()
            self.datapath.services[1] = 7
            wakeup.notify(self.handler._files.handler_wakeup)
            self.wait_for({5: True})

    def renamed_when_made(self, *records):
        self.wait_until(lambda: os.path.isdir(self.queue))
        self.renamed(1, *records)

    def test_only_what_is_done_is_a_sign_of_life(self):
        path = self.handler._files.handler_heartbeat
        self.wait_until(lambda: heartbeat.age_s(path) is not None)
        self.datapath.failure = datapath.DatapathError(errno.EIO, 'no')
        self.renamed(1, record(5, UP))
        self.wait_until(lambda: self.value('failures_total'))
        before = os.stat(path).st_mtime_ns
        failures = self.value('failures_total')
        self.wait_until(
            lambda: self.value('failures_total') >= failures + 2)
        self.assertEqual(before, os.stat(path).st_mtime_ns)

    def test_failure_is_tried_again(self):
        self.datapath.failure = datapath.DatapathError(errno.EIO, 'no')
        self.renamed(1, record(5, UP))
        self.wait_until(lambda: self.value('failures_total'))
        self.datapath.failure = None
        self.wait_for({5: True})
