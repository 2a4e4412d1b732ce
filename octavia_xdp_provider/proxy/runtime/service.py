# SPDX-License-Identifier: Apache-2.0
"""Health and statistics of load balancers on a proxy node.

Documents become checks files for the health checker. Its results go to all
HAProxy processes of a load balancer at once, to the agent, which reports them,
and into the next configuration. One thread does all of that but planning,
which is the caller's: its loop waits for results, for new processes and for
clients of metrics at the same time.
"""

import asyncio
from collections.abc import Callable
from collections.abc import Mapping
import contextlib
import functools
import threading
from typing import Any

from inotify_simple import flags
from inotify_simple import INotify
from oslo_log import log as logging

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.health import checker_status
from octavia_xdp_provider.health import checks
from octavia_xdp_provider.health import checks_directory
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.health import queue_directory
from octavia_xdp_provider.health import results
from octavia_xdp_provider.health import secret_file
from octavia_xdp_provider.proxy.health import members
from octavia_xdp_provider.proxy.health import states
from octavia_xdp_provider.proxy.runtime import exporter
from octavia_xdp_provider.proxy.runtime import files as runtime_files
from octavia_xdp_provider.proxy.runtime import follower
from octavia_xdp_provider.proxy.runtime import processes
from octavia_xdp_provider.proxy.runtime import totals

LOG = logging.getLogger(__name__)

# Interval of looks at the whole queue, the longest delay after lost events.
RESCAN_S = 1.0
_NOTHING = members.Plan(None, {}, frozenset(), frozenset())
Documents = Mapping[str, proxy_spec.Document]


class _Uncounted:
    """Metrics of the queue that nobody asks for."""

    def file(self, kind: str) -> None:
        pass

    def rejected(self, reason: str) -> None:
        pass

    def stretched(self, percent: int) -> None:
        pass


class Runtime:
    """Runs from ``start`` until ``stop``. It is the agent's parts.Health and
    parts.Traffic.

    :param changed: called when states of members have changed.
    :param come_round: see Loops.watch.
    """

    def __init__(self, run_directory: str,
                 changed: Callable[[], None] = lambda: None,
                 come_round: Callable[[], None] = lambda: None) -> None:
        self._files = runtime_files.Files(run_directory)
        self._files.make()
        totals.clean(self._files.counters)
        self._keys = checks.Keys(secret_file.load(self._files.secret))
        self._directory = checks_directory.ChecksDirectory(self._files.checks)
        self._directory.make()
        self._notify = changed
        self._come_round = come_round
        # The caller's thread.
        self._documents: dict[str, proxy_spec.Document] = {}
        self._plans: dict[str, members.Plan] = {}
        self._unwritten: set[str] = set()
        self._states = states.States()
        # The loop's thread; others read results and counters.
        self._followers: dict[str, follower.Follower] = {}
        self._exporters: dict[str, exporter.Exporter] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._queue = queue_directory.QueueDirectory(
            self._files.queue, self._files.rejected)
        self._results = results.Results(self._queue, _Uncounted())
        self._events = INotify()
        self._watched: dict[int, str] = {}
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name='runtime',
                                        daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait until it has ended."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    # The agent's thread.

    def want(self, documents: Documents) -> None:
        """Take the documents of all load balancers that are served, by id.

        :raises OSError: a checks file cannot be written; others are.
        """
        for key, document in documents.items():
            if self._documents.get(key) is not document:
                self._plans[key] = self._plan(key, document)
                self._unwritten.add(key)
        for key in self._plans.keys() - documents.keys():
            del self._plans[key]
        self._documents = dict(documents)
        self._states.plan(self._plans, self._results.last)
        self._loop.call_soon_threadsafe(self._follow, self._documents)
        self._write()

    def _plan(self, key: str, document: proxy_spec.Document) -> members.Plan:
        try:
            return members.plan(document, self._keys)
        except checks_file.ChecksFileError as error:
            LOG.error('Members of load balancer %s are not probed: %s', key,
                      error)
            return _NOTHING

    def _write(self) -> None:
        present, foreign = self._directory.look()
        files = {key: plan.file for key, plan in self._plans.items()
                 if plan.file is not None}
        for key in present - files.keys():
            self._directory.remove(key)
        self._unwritten |= foreign | files.keys() - present
        for key in sorted(self._unwritten & files.keys()):
            self._directory.write(key, files[key])
            self._unwritten.discard(key)
        self._unwritten &= files.keys()

    def changed(self) -> set[str]:
        """Return the load balancers whose members' states have changed since
        the last call."""
        with self._lock:
            changed, self._changed = self._changed, set()
        return changed

    # Any thread.

    def states(self, load_balancer_id: str
               ) -> Mapping[str, messages.MemberState]:
        """Return the states of monitored members by id."""
        return self._states.reported(load_balancer_id)

    def down(self, load_balancer_id: str) -> frozenset[str]:
        """Return the ids of members that a new HAProxy process must not send
        requests to."""
        return self._states.down(load_balancer_id)

    def figures(self) -> messages.HealthChecker | None:
        """Return figures of the checker; None if it does not answer."""
        figures: Any = checker_status.read(self._files.checker_socket)
        if figures is None:
            return None
        checked: messages.HealthChecker = figures
        return checked

    def counters(self) -> dict[str, dict[str, messages.Counters]]:
        """Return counters by load balancer id and listener id."""
        return {key: known.counters
                for key, known in self._followers.copy().items()
                if known.counters}

    # The loop's thread.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.add_reader(self._events, self._take_events)
        rescan = self._loop.create_task(self._rescan())
        try:
            self._loop.run_forever()
        finally:
            self._loop.remove_reader(self._events)
            tasks = [rescan, *self._tasks.values()]
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(
                asyncio.gather(*tasks, return_exceptions=True))
            for served in self._exporters.values():
                self._loop.run_until_complete(served.close())
            self._loop.close()
            self._events.close()

    def _follow(self, documents: Documents) -> None:
        """Follow these load balancers, and those before until they have
        ended."""
        for key, document in documents.items():
            if key not in self._followers:
                self._begin(key)
            self._followers[key].want(document, self._states.wanted(key))
        for key in self._followers.keys() - documents.keys():
            self._followers[key].leave()

    def _begin(self, key: str) -> None:
        directory = self._files.sockets(key)
        known = processes.Processes(directory, totals.Totals(
            self._files.counters / f'{key}.json'))
        followed = follower.Follower(key, known, self._watch)
        self._followers = {**self._followers, key: followed}
        self._exporters[key] = exporter.Exporter(
            directory, followed, functools.partial(self._states.down, key))
        self._tasks[key] = self._loop.create_task(self._see_off(followed))

    async def _see_off(self, followed: follower.Follower) -> None:
        key = followed.identity
        await followed.run()
        await self._exporters.pop(key).close()
        self._followers = {other: known for other, known
                           in self._followers.items() if other != key}
        del self._tasks[key]

    def _watch(self, key: str) -> bool:
        """Have the next event in the directory of a load balancer noticed;
        return False if there is no such directory."""
        try:
            watch = self._events.add_watch(
                self._files.sockets(key), flags.MOVED_TO | flags.CREATE
                | flags.ONLYDIR | flags.DONT_FOLLOW)
        except OSError:
            return False
        self._watched[watch] = key
        return True

    def _take_events(self) -> None:
        for event in self._events.read(timeout=0):
            key = self._watched.get(event.wd)
            if event.mask & flags.Q_OVERFLOW:
                for known in self._followers.values():
                    known.expect()
            elif key == '':
                self._read_results(rescan=False)
            elif event.mask & flags.IGNORED:
                self._watched.pop(event.wd, None)
            elif key is not None:
                # The next look watches it again: one that makes events as
                # fast as it can costs no more.
                with contextlib.suppress(OSError):
                    self._events.rm_watch(event.wd)
                if key in self._followers:
                    self._followers[key].expect()

    async def _rescan(self) -> None:
        while True:
            self._come_round()
            try:
                self._watched[self._events.add_watch(
                    self._files.queue, flags.MOVED_TO)] = ''
                self._read_results(rescan=True)
                for served in self._exporters.values():
                    await served.update()
            except Exception:
                LOG.exception('Health results cannot be read and are tried '
                              'again.')
            await asyncio.sleep(RESCAN_S)

    def _read_results(self, rescan: bool) -> None:
        changes = self._results.update(rescan)
        changed = self._states.take(
            self._results.last if changes.whole else changes.changed)
        for key in changed & self._followers.keys():
            self._followers[key].set_states(self._states.wanted(key))
        # What is lost with this process is read again from the snapshot.
        for path in changes.paths:
            self._queue.remove(path)
        if changed:
            with self._lock:
                self._changed |= changed
            self._notify()
