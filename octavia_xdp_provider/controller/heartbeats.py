# SPDX-License-Identifier: Apache-2.0
"""Collects nodes' heartbeats and stores them in batches.

Each node sends one every two seconds. Storing each by itself would be most of
an idle controller's work.
"""

from collections.abc import Callable
import threading

from oslo_log import log as logging

from octavia_xdp_provider.controller.store import queries

LOG = logging.getLogger(__name__)

# Seconds between two batches: much less than a node may be silent.
INTERVAL_S = 0.5


class Heartbeats:
    """Stores heartbeats; ``run`` returns after ``stop``."""

    def __init__(self, store: queries.Store,
                 come_round: Callable[[], object] = lambda: None) -> None:
        """:param come_round: see Loops.watch."""
        self._store = store
        self._come_round = come_round
        self._lock = threading.Lock()
        self._hosts: set[str] = set()
        self._stopping = threading.Event()

    def note_alive(self, host: str) -> None:
        """Note a node's heartbeat. Thread-safe."""
        with self._lock:
            self._hosts.add(host)

    def store(self) -> None:
        """Store the collected heartbeats. If that fails they are lost, and
        the nodes' next ones follow."""
        with self._lock:
            hosts, self._hosts = sorted(self._hosts), set()
        if hosts:
            self._store.nodes.heartbeat(*hosts)

    def run(self) -> None:
        failing = False
        while not self._stopping.wait(INTERVAL_S):
            self._come_round()
            try:
                self.store()
                failing = False
            except Exception:
                if not failing:
                    LOG.exception('Failed to store heartbeats of nodes; '
                                  'trying again.')
                failing = True

    def stop(self) -> None:
        """Let ``run`` return."""
        self._stopping.set()
