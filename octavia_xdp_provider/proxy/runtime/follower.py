# SPDX-License-Identifier: Apache-2.0
"""Follows the HAProxy processes of one load balancer, until they have ended.

One that hangs delays nobody else: each load balancer has a task of its own,
and each conversation a time-out.
"""

import asyncio
from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import Mapping
import contextlib
import time

from oslo_log import log as logging

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.proxy.runtime import answers
from octavia_xdp_provider.proxy.runtime import processes
from octavia_xdp_provider.proxy.runtime import session

LOG = logging.getLogger(__name__)

# Seconds between two looks: with one process; with some that may be about to
# end, or of a load balancer that is no longer wanted.
LOOK_S, SOON_S = 5.0, 1.0
# Age in seconds of statistics that are new enough for clients of metrics.
_FRESH_S = 0.2
# Seconds after a failed look, from the first one to the longest.
_RETRY_S = 0.02
_FAILURES_TO_LOG = 6
# After an event a new process is expected so long, and asked for so often. One
# that makes events as fast as it can makes no more looks.
_EXPECTED_S, _PAUSE_S = 2.0, 0.05


class Follower:
    """Belongs to the loop's thread, but ``counters``.

    :param watch: called before each look; from then on ``expect`` is
        called for events, unless this returns False.
    :ivar counters: of listeners by id. Replaced, never modified.
    """

    def __init__(self, identity: str, known: processes.Processes,
                 watch: Callable[[str], bool]) -> None:
        self.identity = identity
        self._processes = known
        self._watch = watch
        self._document: proxy_spec.Document | None = None
        self._wake = asyncio.Event()
        self._look_at = float('-inf')
        self._is_leaving = False
        self._failures = 0
        self._looked_at = float('-inf')
        self._expects_until = float('-inf')
        self._is_watched = False
        self._lock = asyncio.Lock()
        self.counters: dict[str, messages.Counters] = {}

    def want(self, document: proxy_spec.Document, states: Mapping[str, bool]
             ) -> None:
        """Take the document, and what is wanted of members."""
        self._is_leaving = False
        if document is not self._document:
            self._document = document
            pools = {key: [pool_id for pool_id, _pool
                           in proxy_spec.pools_of(document, listener)]
                     for key, listener in document['listeners'].items()}
            backends = {f'{pool_id}:{key}': document['pools'][pool_id]
                        for key, used in pools.items() for pool_id in used}
            self._processes.rows = len(pools) + sum(
                1 + len(pool['members']) for pool in backends.values())
            # One that is removed may have connections for long.
            self._processes.counters.keep({*pools, *backends})
            self._processes.kinds = answers.FRONTENDS | (
                answers.BACKENDS | answers.SERVERS if self.has_metrics else 0)
        self.set_states(states)

    @property
    def has_metrics(self) -> bool:
        """Whether clients can ask for metrics."""
        return self._document is not None and any(
            listener['protocol'] == 'PROMETHEUS'
            for listener in self._document['listeners'].values())

    def set_states(self, states: Mapping[str, bool]) -> None:
        """Have all processes treat members so, at once."""
        if states != self._processes.states:
            self._processes.states = states
            self._wake.set()

    def leave(self) -> None:
        """Follow processes only until they have ended."""
        self._is_leaving = True
        self._wake.set()

    def expect(self) -> None:
        """Expect a new process: something of HAProxy's has changed."""
        self._expects_until = time.monotonic() + _EXPECTED_S
        self._wake.set()

    async def run(self) -> None:
        """Return when the load balancer is not wanted, and its processes have
        ended."""
        try:
            while True:
                pause_s = await self._turn()
                if time.monotonic() < self._expects_until:
                    pause_s = min(pause_s, _PAUSE_S)
                if self._is_leaving and not self._processes.all():
                    self._processes.counters.remove()
                    return
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), pause_s)
                self._wake.clear()
        finally:
            await self._processes.close()

    async def fresh(self) -> processes.Processes:
        """Return the processes, of which statistics have just been read."""
        async with self._lock:
            if time.monotonic() >= self._looked_at + _FRESH_S:
                await self._try(self._look)
            return self._processes

    async def _turn(self) -> float:
        """Do what is due; return the seconds until the next look."""
        now = time.monotonic()
        async with self._lock:
            if now >= self._look_at:
                await self._try(self._look)
            elif now < self._expects_until:
                await self._try(self._meet)
            else:
                await self._try(self._processes.set_states)
        if self._failures:
            pause_s = min(_RETRY_S * (1 << min(self._failures, 10)), LOOK_S)
        elif (self._is_leaving or not self._is_watched
                or len(self._processes.all()) > 1):
            pause_s = SOON_S
        else:
            pause_s = LOOK_S
        self._look_at = min(self._look_at, self._looked_at + pause_s)
        return max(0.0, self._look_at - time.monotonic())

    async def _meet(self) -> None:
        self._is_watched = self._watch(self.identity)
        await self._processes.set_states()
        if await self._processes.meet():
            await self._look()

    async def _look(self) -> None:
        self._is_watched = self._watch(self.identity)
        try:
            await self._processes.look()
        finally:
            self._looked_at = time.monotonic()
            self._look_at = self._looked_at + LOOK_S
            self._count()

    async def _try(self, act: Callable[[], Awaitable[None]]) -> None:
        problem = None
        try:
            await act()
        except (answers.BadAnswer, session.Unreachable, OSError) as error:
            problem = str(error)
        except Exception as error:
            LOG.exception('%s: something failed and is tried again.',
                          self.identity)
            problem = type(error).__name__
        self._failures = self._failures + 1 if problem else 0
        # One that is just starting needs a moment.
        if self._failures == _FAILURES_TO_LOG:
            LOG.warning('%s: HAProxy cannot be asked and is tried again: %s.',
                        self.identity, problem)

    def _count(self) -> None:
        """Take counters from what was read.

        :raises OSError: they cannot be saved.
        """
        if self._document is None:
            return
        sums = self._processes.counters.sums()
        active: dict[str, int] = {}
        for process in self._processes.all():
            for row in process.rows:
                if row['svname'] == answers.FRONTEND:
                    active[row['pxname']] = (active.get(row['pxname'], 0)
                                             + answers.number(row, 'scur'))
        self.counters = {
            key: _counters(sums.get(f'{key}/{answers.FRONTEND}', {}),
                           active.get(key, 0))
            for key in self._document['listeners']}
        self._processes.counters.save()


def _counters(counts: Mapping[str, int], active: int) -> messages.Counters:
    """Return Octavia's statistics of a listener, of HAProxy's columns.

    What Octavia calls errors of requests are "drops" in messages.
    """
    return {'bytes': counts.get('bin', 0), 'bytes_out': counts.get('bout', 0),
            'flows': counts.get('stot', 0), 'drops': counts.get('ereq', 0),
            'active': active}
