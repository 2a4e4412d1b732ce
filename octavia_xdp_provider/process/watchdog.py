# SPDX-License-Identifier: Apache-2.0
"""Lets systemd end a process whose loops hang.

Its thread signals systemd periodically that the process is alive, and stops
doing so while a loop hangs. systemd then ends the process with SIGABRT, on
which cmd/process.py writes the stacks of all threads to standard error, and
restarts it.
"""

import threading

from oslo_log import log as logging

from octavia_xdp_provider.process import loops as loops_module
from octavia_xdp_provider.process import systemd as systemd_module

LOG = logging.getLogger(__name__)

# Seconds between two checks if systemd has no watchdog for this process.
INTERVAL_S = 10.0


class Watchdog:
    """Checks the loops periodically until ``stop`` is called."""

    def __init__(self, loops: loops_module.Loops,
                 systemd: systemd_module.Systemd) -> None:
        self._loops = loops
        self._systemd = systemd
        self._interval_s = (systemd.watchdog_s or 3 * INTERVAL_S) / 3
        self._hanging: frozenset[str] = frozenset()
        self._stopping = threading.Event()

    def start(self) -> None:
        # A daemon thread: the process must end when its main thread ends.
        threading.Thread(target=self._run, name='watchdog',
                         daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:
                LOG.exception('The watchdog failed and goes on.')
            if self._stopping.wait(self._interval_s):
                return

    def look(self) -> None:
        """Signal systemd that the process is alive unless a loop hangs."""
        hanging = self._loops.hanging()
        if hanging.keys() != self._hanging:
            if hanging:
                LOG.error('Hanging: %s.%s', loops_module.words(hanging),
                          ' systemd is no longer notified that this process '
                          'is alive.' if self._systemd.watchdog_s else '')
            else:
                LOG.info('Nothing hangs any more.')
        self._hanging = frozenset(hanging)
        if not hanging:
            self._systemd.alive()
