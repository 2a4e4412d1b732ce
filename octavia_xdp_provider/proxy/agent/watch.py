# SPDX-License-Identifier: Apache-2.0
"""The thread that waits for new states of the launcher."""

from collections.abc import Callable
import os
import select
import threading

from inotify_simple import flags
from inotify_simple import INotify
from oslo_log import log as logging

from octavia_xdp_provider.proxy.agent import states

LOG = logging.getLogger(__name__)

# Seconds between two looks whether the directory is still the same one.
LOOK_S = 5.0
# Seconds until a directory that is not there is looked for again.
RETRY_S = 1.0
_CHANGED = (flags.MOVED_TO | flags.DELETE | flags.CLOSE_WRITE
            | flags.ONLYDIR | flags.DONT_FOLLOW)


class Watch:
    """Runs from ``start`` until ``stop``.

    :param changed: called when there is something to be taken.
    :param come_round: see Loops.watch.
    """

    def __init__(self, directory: str, changed: Callable[[], None],
                 come_round: Callable[[], None] = lambda: None) -> None:
        self._directory = directory
        self._changed = changed
        self._come_round = come_round
        self._stop = threading.Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name='states')
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._is_all = True

    def take(self) -> set[str] | None:
        """Return the load balancers whose states may have changed since the
        last call; None if any may have."""
        with self._lock:
            ids, is_all = self._ids, self._is_all
            self._ids, self._is_all = set(), False
        return None if is_all else ids

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._stop.set()
        os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._come_round()
            try:
                self._follow()
            except OSError as error:
                LOG.debug('%s cannot be watched: %s', self._directory, error)
                self._stop.wait(RETRY_S)

    def _follow(self) -> None:
        """Follow the directory until it is another one.

        :raises OSError: it is not there.
        """
        with INotify() as inotify:
            inotify.add_watch(self._directory, _CHANGED)
            watched = _inode(self._directory)
            self._give(set(), is_all=True)
            while not self._stop.is_set():
                self._come_round()
                select.select((inotify, self._wake), (), (), LOOK_S)
                events = list(inotify.read(timeout=0))
                is_lost = any(event.mask & (flags.Q_OVERFLOW | flags.IGNORED)
                              for event in events)
                ids = {states.identity(event.name) for event in events
                       if states.is_state(event.name)}
                if ids or is_lost:
                    self._give(ids, is_lost)
                if _inode(self._directory) != watched:
                    return

    def _give(self, ids: set[str], is_all: bool) -> None:
        with self._lock:
            self._ids |= ids
            self._is_all |= is_all
        self._changed()


def _inode(directory: str) -> tuple[int, int]:
    status = os.stat(directory)
    return status.st_dev, status.st_ino
