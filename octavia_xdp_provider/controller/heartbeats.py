# SPDX-License-Identifier: Apache-2.0
"""Nodes' signs of life, noted for all of them at once.

They come every two seconds from each node. To note each by itself would be
most of what an idle controller does.
"""

import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Seconds between two notes: much less than a node may be silent.
INTERVAL_S = 0.5


class Heartbeats:
    """Notes who was heard; ``run`` until ``stop``."""

    def __init__(self, store, come_round=lambda: None):
        """:param come_round: see Loops.watch."""
        self._store = store
        self._come_round = come_round
        self._lock = threading.Lock()
        self._hosts = set()
        self._stopping = threading.Event()

    def heard(self, host):
        """A node is alive. Any thread may call this."""
        with self._lock:
            self._hosts.add(host)

    def note(self):
        """Store what was heard. Another sign of life follows one that could
        not be stored."""
        with self._lock:
            hosts, self._hosts = sorted(self._hosts), set()
        if hosts:
            self._store.heartbeat(*hosts)

    def run(self):
        failing = False
        while not self._stopping.wait(INTERVAL_S):
            self._come_round()
            try:
                self.note()
                failing = False
            except Exception:
                if not failing:
                    LOG.exception('Signs of life of nodes cannot be stored; '
                                  'trying again.')
                failing = True

    def stop(self):
        """Let ``run`` return."""
        self._stopping.set()
