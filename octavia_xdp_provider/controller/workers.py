# SPDX-License-Identifier: Apache-2.0
"""Threads that take the items of the work queue, in each controller.

One thread claims what is due, as many as there are idle workers, and renews
the claims of what they are at. An item that fails harms no other: it is
tried again later and later, and its error logged once.
"""

from concurrent import futures
import heapq
import threading
import time

from oslo_log import log as logging

from octavia_xdp_provider.controller.octavia import errors

LOG = logging.getLogger(__name__)

# Seconds between two looks for what other controllers have marked.
POLL_S = 1.0
# Seconds after which an own item is surely due: the database's clock says so.
_SOON_S = 0.01
# Seconds until a failed item is tried again: the first time, at most.
_BACKOFF_FIRST_S = 0.5
_BACKOFF_MAX_S = 60.0


class Workers:
    """Works until ``stop`` is called. ``wake`` is safe in any thread."""

    def __init__(self, store, step, owner, threads, lease_s,
                 come_round=lambda: None):
        """:param step: see Advance.step.

        :param owner: unique to this run of this process.
        :param lease_s: seconds after which others take the items over that
            this process has claimed, if it dies.
        :param come_round: see Loops.watch.
        """
        self._come_round = come_round
        self._store = store
        self._step = step
        self._owner = owner
        self._threads = threads
        self._lease_s = lease_s
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._busy = {}    # load balancer id → item that a thread is at
        self._begun = {}   # load balancer id → since when
        self._due = []     # heap of times at which own items are due again
        self._complained = {}  # load balancer id → last error logged

    def wake(self, in_s=0.0):
        """Something was marked by this process.

        :param in_s: it is best looked at in so many seconds.
        """
        if in_s:
            with self._lock:
                heapq.heappush(self._due, time.monotonic() + in_s)
        # Also then: the thread has to find out for how long to wait.
        self._woken.set()

    def stop(self):
        """Ask ``run`` to finish what has begun, and return."""
        self._stopping.set()
        self._woken.set()

    def busy_s(self):
        """Seconds that a thread has been at one item at most; 0: none is."""
        with self._lock:
            return time.monotonic() - min(
                self._begun.values(), default=time.monotonic())

    def run(self):
        pool = futures.ThreadPoolExecutor(self._threads,
                                          thread_name_prefix='worker')
        renewals = threading.Thread(target=self._renew, name='claims')
        renewals.start()
        failing = False
        while not self._stopping.is_set():
            self._woken.clear()
            self._come_round()
            try:
                self._claim(pool)
                failing = False
            except Exception:
                if not failing:
                    LOG.exception('No work can be claimed; trying again.')
                failing = True
            self._woken.wait(self._pause_s())
        pool.shutdown(cancel_futures=True)
        renewals.join()
        try:
            self._store.release(self._owner)
        except Exception:
            LOG.exception('Claims could not be released and expire.')

    def _claim(self, pool):
        with self._lock:
            idle = self._threads - len(self._busy)
        for item in self._store.claim(self._owner, idle, self._lease_s):
            with self._lock:
                self._busy[item.load_balancer_id] = item
            pool.submit(self._work, item)

    def _pause_s(self):
        """Until an own item is due, or others may have marked some."""
        with self._lock:
            if len(self._busy) >= self._threads:
                return POLL_S
            now = time.monotonic()
            while self._due and self._due[0] <= now:
                heapq.heappop(self._due)
            return min(POLL_S, self._due[0] - now if self._due else POLL_S)

    def _work(self, item):
        key = item.load_balancer_id
        with self._lock:
            self._begun[key] = time.monotonic()
        try:
            again_in_s = self._advance(item)
            if not self._store.finish(item, self._owner, again_in_s):
                self.wake()  # It was marked meanwhile.
            elif again_in_s is not None and again_in_s < POLL_S:
                self.wake(again_in_s + _SOON_S)
        except Exception:
            # Its claim expires.
            LOG.exception('Work on load balancer %s could not be finished.',
                          key)
        finally:
            with self._lock:
                were_idle = len(self._busy) < self._threads
                self._busy.pop(key, None)
                self._begun.pop(key, None)
            if not were_idle:
                # More may be due than there were threads for.
                self._woken.set()

    def _advance(self, item):
        key = item.load_balancer_id
        try:
            again_in_s = self._step(item, lambda: self._is_mine(key))
        except errors.OctaviaUnavailable as error:
            self._complain(key, f'{error}', LOG.warning)
        except Exception as error:
            self._complain(key, f'{type(error).__name__}: {error}',
                           LOG.exception)
        else:
            self._complained.pop(key, None)
            return again_in_s
        return min(_BACKOFF_FIRST_S * 2 ** min(item.failures, 10),
                   _BACKOFF_MAX_S)

    def _is_mine(self, key):
        return self._store.is_claimed_by(self._owner, key)

    def _complain(self, key, text, log):
        if self._complained.get(key) != text:
            log('Load balancer %s: %s; trying again.', key, text)
        if len(self._complained) > 10_000:
            self._complained.clear()
        self._complained[key] = text

    def _renew(self):
        while not self._stopping.wait(self._lease_s / 3):
            with self._lock:
                busy = list(self._busy)
            if not busy:
                continue
            try:
                self._store.renew(self._owner, busy, self._lease_s)
            except Exception as error:
                LOG.warning('Claims could not be renewed: %s', error)
