# SPDX-License-Identifier: Apache-2.0
"""Threads that take the items of the work queue, in each controller.

One thread claims what is due, as many as there are idle workers, and renews
the claims of what they are at. An item that fails harms no other: it is
tried again later and later, and its error logged once. Nor does one that has
to wait long for somebody else (``Waiting``): another thread takes its place.
"""

from concurrent import futures
import contextlib
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
# What a step returns of an item that it has finished itself.
FINISHED = object()
# Items that may wait for somebody else at a time, each with a thread.
WAITING_MAX = 100


class Waiting:
    """Items that wait long for somebody else. Any thread may use it."""

    def __init__(self, most=WAITING_MAX):
        self._most = most
        self._keys = set()
        self.changed = lambda key: None  # called when one begins and ends

    @property
    def keys(self):
        """Ids of load balancers."""
        return frozenset(self._keys)

    @property
    def is_full(self):
        """Whether no other may, and is to come again."""
        return len(self._keys) >= self._most

    @contextlib.contextmanager
    def of(self, key):
        """While a thread waits that is at this load balancer."""
        self._keys.add(key)
        self.changed(key)
        try:
            yield
        finally:
            self.changed(key)
            self._keys.discard(key)


class Workers:
    """Works until ``stop`` is called. ``wake`` is safe in any thread."""

    def __init__(self, store, step, owner, threads, lease_s,
                 come_round=lambda: None, waiting=None):
        """:param step: see Advance.step.

        :param owner: unique to this run of this process.
        :param lease_s: seconds after which others take the items over that
            this process has claimed, if it dies.
        :param come_round: see Loops.watch.
        :param waiting: Waiting, that ``step`` uses.
        """
        self._come_round = come_round
        self._waiting = waiting or Waiting()
        self._store = store
        self._step = step
        self._owner = owner
        self._threads = threads
        self._lease_s = lease_s
        self._woken = threading.Event()
        self._waiting.changed = self._wait_changed
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._busy = {}    # load balancer id → item that a thread is at
        self._claimed = {}  # load balancer id → since when surely
        self._begun = {}   # load balancer id → since when
        self._due = []     # heap of times at which own items are due again
        self._later = set()  # their ids, unless they were claimed meanwhile
        self._named = set()  # ids of own items that are due
        self._asks = True  # whether others may be
        self._ask_at = 0.0
        self._complained = {}  # load balancer id → last error logged

    def wake(self, in_s=0.0, ids=None):
        """Something was marked by this process.

        :param in_s: it is best looked at in so many seconds, unless it is
            before.
        :param ids: of the load balancers, which are claimed whatever the
            queue says of their time. None: what is due is asked for.
        """
        with self._lock:
            if in_s:
                heapq.heappush(self._due, (
                    time.monotonic() + in_s, sorted(ids or ())))
                self._later.update(ids or ())
            elif ids is None:
                self._asks = True
            else:
                self._named.update(ids)
        # Also later: the thread has to find out for how long to wait.
        self._woken.set()

    def stop(self):
        """Ask ``run`` to finish what has begun, and return."""
        self._stopping.set()
        self._woken.set()

    def busy_s(self):
        """Seconds that a thread has been at one item at most; 0: none is.

        Without those that wait for somebody else, for as long as it takes.
        """
        with self._lock:
            now, waiting = time.monotonic(), self._waiting.keys
            return now - min((since for key, since in self._begun.items()
                              if key not in waiting), default=now)

    def _wait_changed(self, key):
        """Another thread may be taken, or one has been waited for."""
        with self._lock:
            if key in self._begun:
                self._begun[key] = time.monotonic()
        self._woken.set()

    def _idle(self):
        """Threads that may take an item. The lock is held."""
        return self._threads - len(self._busy.keys() - self._waiting.keys)

    def run(self):
        pool = futures.ThreadPoolExecutor(self._threads + WAITING_MAX,
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
        """Claim items that were named, and at times what else is due."""
        began = time.monotonic()
        with self._lock:
            self._come_due(began)
            idle = self._idle()
            # What a thread is at comes again if it was marked meanwhile.
            named = sorted(self._named - self._busy.keys())[:max(0, idle)]
            self._named.difference_update(named)
            asks, self._asks = self._asks and idle > len(named), (
                self._asks and idle <= len(named))
        if named:
            self._take(pool, began, self._store.claim(
                self._owner, len(named), self._lease_s, named))
        if asks:
            self._ask_at = began + POLL_S
            self._take(pool, began, self._store.claim(
                self._owner, idle - len(named), self._lease_s))

    def _take(self, pool, began, items):
        for item in items:
            with self._lock:
                self._busy[item.load_balancer_id] = item
                self._claimed[item.load_balancer_id] = began
                self._later.discard(item.load_balancer_id)
            pool.submit(self._work, item)

    def _come_due(self, now):
        """What is due now. The lock is held."""
        while self._due and self._due[0][0] <= now:
            _, ids = heapq.heappop(self._due)
            self._named.update(self._later.intersection(ids))
            self._later.difference_update(ids)
            self._asks |= not ids
        self._asks |= now >= self._ask_at

    def _pause_s(self):
        """Until an own item is due, or others may have marked some."""
        with self._lock:
            if self._idle() <= 0:
                return POLL_S
            now = time.monotonic()
            if self._asks or self._named - self._busy.keys():
                return 0.0
            until = min(self._ask_at,
                        self._due[0][0] if self._due else self._ask_at)
            return min(POLL_S, max(0.0, until - now))

    def _work(self, item):
        key = item.load_balancer_id
        with self._lock:
            self._begun[key] = time.monotonic()
        try:
            again_in_s = self._advance(item)
            if again_in_s is FINISHED:
                return
            if not self._store.finish(item, self._owner, again_in_s):
                self.wake(ids=[key])  # It was marked meanwhile.
            elif again_in_s is not None and again_in_s < POLL_S:
                self.wake(again_in_s + _SOON_S, [key])
        except Exception:
            # Its claim expires.
            LOG.exception('Work on load balancer %s could not be finished.',
                          key)
        finally:
            with self._lock:
                were_idle = self._idle() > 0
                self._busy.pop(key, None)
                self._claimed.pop(key, None)
                self._begun.pop(key, None)
                is_due = key in self._named
            if is_due or not were_idle:
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
        """Whether nobody else has taken an item over.

        Others may, at the earliest, when its claim ends. For most of that
        time nobody has to be asked; by this process' clock, which also goes
        on while the process is stopped.
        """
        with self._lock:
            since = self._claimed.get(key)
        if since is not None and (time.monotonic() - since
                                  < self._lease_s / 3):
            return True
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
