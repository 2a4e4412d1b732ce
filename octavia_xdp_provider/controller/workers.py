# SPDX-License-Identifier: Apache-2.0
"""Threads that process the items of the work queue, in each controller.

One thread claims as many due items as there are idle workers, and renews the
claims of items in progress. A failing item does not affect others: it is
retried at growing intervals, and its error is logged once. Nor does an item
that waits long for another service (``Waiting``): another thread takes over.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from concurrent import futures
import contextlib
import enum
import heapq
import threading
import time
from typing import Final
from typing import TypeAlias

from oslo_log import log as logging

from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import work

LOG = logging.getLogger(__name__)

# Seconds between two polls for items that other controllers have marked.
POLL_S = 1.0
# Margin in seconds after which an item is surely due by the database's clock.
_SOON_S = 0.01
# First and longest interval until a failed item is tried again, in seconds.
_BACKOFF_FIRST_S = 0.5
_BACKOFF_MAX_S = 60.0
# Result of a step that has finished its item itself.
class Finished(enum.Enum):
    FINISHED = enum.auto()


FINISHED: Final = Finished.FINISHED

# What a step returns, and the step: see Advance.step.
Again: TypeAlias = float | Finished | None
Step: TypeAlias = Callable[[work.Item, Callable[[], bool]], Again]

# Items that may wait for other services at a time, each in a thread.
WAITING_MAX = 100


class Waiting:
    """Items that wait long for another service. Thread-safe."""

    def __init__(self, most: int = WAITING_MAX) -> None:
        self._most = most
        self._keys: set[str] = set()
        # Called when a wait begins or ends.
        self.changed: Callable[[str], None] = lambda key: None

    @property
    def keys(self) -> frozenset[str]:
        """Ids of the load balancers that wait."""
        return frozenset(self._keys)

    @property
    def is_full(self) -> bool:
        """Whether no other item may wait, and has to be tried later."""
        return len(self._keys) >= self._most

    @contextlib.contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Count a load balancer as waiting during the context."""
        self._keys.add(key)
        self.changed(key)
        try:
            yield
        finally:
            self.changed(key)
            self._keys.discard(key)


class Workers:
    """Processes items until ``stop`` is called. ``wake`` is thread-safe."""

    def __init__(self, store: queries.Store, step: Step, owner: str,
                 threads: int, lease_s: float,
                 come_round: Callable[[], object] = lambda: None,
                 waiting: Waiting | None = None) -> None:
        """:param step: see Advance.step.

        :param owner: unique to this run of this process.
        :param lease_s: seconds after which other controllers take over this
            process's items if it dies.
        :param come_round: see Loops.watch.
        :param waiting: the Waiting that ``step`` uses.
        """
        self._come_round = come_round
        self._waiting = waiting or Waiting()
        self._store = store
        self._step = step
        self._owner = owner
        self._threads = threads
        self._lease_s = lease_s
        self._woken = threading.Event()
        self._waiting.changed = self._on_wait_changed
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        # Items in progress, and when their claim and their processing began,
        # by load balancer id.
        self._busy: dict[str, work.Item] = {}
        self._claimed: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        # A heap of (time, ids) of own items that are due later.
        self._due: list[tuple[float, list[str]]] = []
        # Their ids, unless they were claimed meanwhile.
        self._later: set[str] = set()
        # Ids of own items that are due.
        self._requested: set[str] = set()
        self._may_be_due = True  # whether other items may be due
        self._poll_at = 0.0
        # load balancer id → last error logged
        self._logged_errors: dict[str, str] = {}

    def wake(self, in_s: float = 0.0, ids: Iterable[str] | None = None
             ) -> None:
        """Claim items that this process has marked.

        :param in_s: seconds to wait, unless they are claimed earlier.
        :param ids: ids of load balancers to claim even if the queue has them
            due later; None to claim all due items.
        """
        with self._lock:
            if in_s:
                heapq.heappush(self._due, (
                    time.monotonic() + in_s, sorted(ids or ())))
                self._later.update(ids or ())
            elif ids is None:
                self._may_be_due = True
            else:
                self._requested.update(ids)
        # Even if due later: the thread has to adjust its wait.
        self._woken.set()

    def stop(self) -> None:
        """Ask ``run`` to finish items in progress and return."""
        self._stopping.set()
        self._woken.set()

    def busy_s(self) -> float:
        """Return the longest time in seconds of an item in progress, or 0.

        Items that wait for another service do not count.
        """
        with self._lock:
            now, waiting = time.monotonic(), self._waiting.keys
            return now - min((since for key, since in self._begun.items()
                              if key not in waiting), default=now)

    def _on_wait_changed(self, key: str) -> None:
        """Adjust to a wait that begins or ends."""
        with self._lock:
            if key in self._begun:
                self._begun[key] = time.monotonic()
        self._woken.set()

    def _idle(self) -> int:
        """Return the number of idle threads. The caller holds the lock."""
        return self._threads - len(self._busy.keys() - self._waiting.keys)

    def run(self) -> None:
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
                    LOG.exception('Failed to claim work; trying again.')
                failing = True
            self._woken.wait(self._pause_s())
        pool.shutdown(cancel_futures=True)
        renewals.join()
        try:
            self._store.work.release(self._owner)
        except Exception:
            LOG.exception('Failed to release claims, which will expire.')

    def _claim(self, pool: futures.Executor) -> None:
        """Claim requested items, and at intervals other due ones."""
        began = time.monotonic()
        with self._lock:
            self._collect_due(began)
            idle = self._idle()
            # Items in progress that were marked again have to wait.
            requested = sorted(self._requested
                               - self._busy.keys())[:max(0, idle)]
            self._requested.difference_update(requested)
            polls = self._may_be_due and idle > len(requested)
            self._may_be_due = self._may_be_due and not polls
        if requested:
            self._take(pool, began, self._store.work.claim(
                self._owner, len(requested), self._lease_s, requested))
        if polls:
            self._poll_at = began + POLL_S
            self._take(pool, began, self._store.work.claim(
                self._owner, idle - len(requested), self._lease_s))

    def _take(self, pool: futures.Executor, began: float,
              items: Iterable[work.Item]) -> None:
        for item in items:
            with self._lock:
                self._busy[item.load_balancer_id] = item
                self._claimed[item.load_balancer_id] = began
                self._later.discard(item.load_balancer_id)
            pool.submit(self._work, item)

    def _collect_due(self, now: float) -> None:
        """Move items that are due now to the requested ones. The caller holds
        the lock."""
        while self._due and self._due[0][0] <= now:
            _, ids = heapq.heappop(self._due)
            self._requested.update(self._later.intersection(ids))
            self._later.difference_update(ids)
            self._may_be_due |= not ids
        self._may_be_due |= now >= self._poll_at

    def _pause_s(self) -> float:
        """Return the seconds until an item is due or the next poll."""
        with self._lock:
            if self._idle() <= 0:
                return POLL_S
            now = time.monotonic()
            if self._may_be_due or self._requested - self._busy.keys():
                return 0.0
            until = min(self._poll_at,
                        self._due[0][0] if self._due else self._poll_at)
            return min(POLL_S, max(0.0, until - now))

    def _work(self, item: work.Item) -> None:
        key = item.load_balancer_id
        with self._lock:
            self._begun[key] = time.monotonic()
        try:
            again_in_s = self._advance(item)
            if again_in_s is FINISHED:
                return
            if not self._store.work.finish(item, self._owner, again_in_s):
                self.wake(ids=[key])  # It was marked meanwhile.
            elif again_in_s is not None and again_in_s < POLL_S:
                self.wake(again_in_s + _SOON_S, [key])
        except Exception:
            # The claim expires.
            LOG.exception('Failed to finish work on load balancer %s.', key)
        finally:
            with self._lock:
                were_idle = self._idle() > 0
                self._busy.pop(key, None)
                self._claimed.pop(key, None)
                self._begun.pop(key, None)
                is_due = key in self._requested
            if is_due or not were_idle:
                # More items may be due than there were idle threads.
                self._woken.set()

    def _advance(self, item: work.Item) -> Again:
        key = item.load_balancer_id
        try:
            again_in_s = self._step(item, lambda: self._is_mine(key))
        except errors.OctaviaUnavailable as error:
            self._log_once(key, f'{error}', LOG.warning)
        except Exception as error:
            self._log_once(key, f'{type(error).__name__}: {error}',
                           LOG.exception)
        else:
            self._logged_errors.pop(key, None)
            return again_in_s
        return min(_BACKOFF_FIRST_S * 2.0 ** min(item.failures, 10),
                   _BACKOFF_MAX_S)

    def _is_mine(self, key: str) -> bool:
        """Return whether no other controller has taken an item over.

        Others can do so once the claim has expired. For most of the claim the
        database need not be asked, by this process's clock, which goes on
        while the process is suspended.
        """
        with self._lock:
            since = self._claimed.get(key)
        if since is not None and (time.monotonic() - since
                                  < self._lease_s / 3):
            return True
        return self._store.work.is_claimed_by(self._owner, key)

    def _log_once(self, key: str, text: str, log: Callable[..., None]) -> None:
        if self._logged_errors.get(key) != text:
            log('Load balancer %s: %s; trying again.', key, text)
        if len(self._logged_errors) > 10_000:
            self._logged_errors.clear()
        self._logged_errors[key] = text

    def _renew(self) -> None:
        while not self._stopping.wait(self._lease_s / 3):
            with self._lock:
                busy = list(self._busy)
            if not busy:
                continue
            try:
                self._store.work.renew(self._owner, busy, self._lease_s)
            except Exception as error:
                LOG.warning('Failed to renew claims: %s', error)
