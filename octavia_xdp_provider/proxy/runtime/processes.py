# SPDX-License-Identifier: Apache-2.0
"""The HAProxy processes of one load balancer: the newest, which accepts
connections, and those before it, which end with their last connection.

With each there is a session from its beginning, which keeps it until its last
counters have been read. Those that have begun before this agent are asked by
way of their master, who can reach them until they end.
"""

import asyncio
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import dataclasses
import os
import pathlib
import re
import time

from oslo_log import log as logging

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.runtime import answers
from octavia_xdp_provider.proxy.runtime import session as sessions
from octavia_xdp_provider.proxy.runtime import totals

LOG = logging.getLogger(__name__)

_MASTER_SOCKET = re.compile(proxy_launch.MASTER_SOCKET_PATTERN)
# Interval in seconds of comparing states with those that a process has.
COMPARE_S = 30.0
# HAProxy's own proxies are few.
_ROWS_BESIDE = 16
_STOPPED = 'STOP'
_SAYS_UNKNOWN_PID = "Can't find the target PID"


@dataclasses.dataclass
class Process:
    """:ivar session: None if it is asked by way of its master.
    :ivar master: the name of its master's socket.
    :ivar rows: statistics as last read.
    :ivar servers: which of its servers are in maintenance.
    :ivar compare_at: when that is read again.
    """

    pid: int
    session: sessions.Session | None = None
    master: str | None = None
    rows: list[answers.Row] = dataclasses.field(default_factory=list)
    servers: dict[answers.Server, bool] = dataclasses.field(
        default_factory=dict)
    compare_at: float = 0.0

    def is_ending(self) -> bool:
        """Return whether it accepts no connections any more."""
        frontends = self._frontends()
        return bool(frontends) and all(row['status'] == _STOPPED
                                       for row in frontends)

    def is_done(self) -> bool:
        """Return whether it accepts no connections, and has none."""
        return self.is_ending() and not any(
            answers.number(row, 'scur') for row in self._frontends())

    def _frontends(self) -> list[answers.Row]:
        return [row for row in self.rows if row['svname'] == answers.FRONTEND]


class Processes:
    """Used by one thread's loop, and by one coroutine at a time.

    :param directory: of the load balancer's sockets.
    :ivar kinds: which rows of statistics are wanted.
    :ivar rows: how many there are in the configuration.
    :ivar states: by member, whether it is to get no requests.
    """

    def __init__(self, directory: pathlib.Path, counters: totals.Totals
                 ) -> None:
        self._directory = directory
        self.counters = counters
        self.kinds = answers.FRONTENDS
        self.rows = 0
        self.states: Mapping[str, bool] = {}
        self._processes: dict[int, Process] = {}
        self._newest: int | None = None
        self._has_strangers = True
        # Those that were let go and may not have ended yet.
        self._finished: set[int] = set()

    def all(self) -> list[Process]:
        """Return the processes, the newest one last."""
        return sorted(self._processes.values(),
                      key=lambda process: process.pid == self._newest)

    async def look(self) -> None:
        """Find out what processes there are, and read from all.

        :raises Unreachable: one does not answer. The others were read.
        """
        failures: list[Exception] = []
        try:
            await self.meet()
        except (sessions.Unreachable, answers.BadAnswer) as error:
            failures.append(error)
        if self._has_strangers:
            await self._adopt()
        failures += [result for result in await asyncio.gather(
            *map(self._read, self.all()), return_exceptions=True)
            if isinstance(result, Exception)]
        if failures:
            raise failures[0]

    async def set_states(self) -> None:
        """Have all processes treat members as ``states`` says, as far as they
        are known not to.

        :raises Unreachable: one does not answer. The others were told.
        """
        failures = [result for result in await asyncio.gather(
            *map(self._guard, self.all()), return_exceptions=True)
            if isinstance(result, Exception)]
        if failures:
            raise failures[0]

    async def close(self) -> None:
        """Let processes end, without waiting for that."""
        for process in self._processes.values():
            if process.session:
                await process.session.close()
        self._processes.clear()

    async def meet(self) -> bool:
        """Begin a session with the process that accepts connections, if there
        is none yet; return whether it is another process than before.

        After a reload the socket is the same, with another process behind it.

        :raises Unreachable: it does not answer.
        :raises BadAnswer: it does not answer as HAProxy does.
        """
        if not (self._directory / proxy_launch.RUNTIME_SOCKET).is_socket():
            return False
        session = await sessions.Session.open(
            self._directory, proxy_launch.RUNTIME_SOCKET, self._answer_max())
        try:
            said, = await session.ask(['show info'])
            pid = answers.number(answers.parse_information(said), 'Pid')
            if not pid:
                raise answers.BadAnswer('a process without a pid')
        except BaseException:
            await session.close()
            raise
        process = self._processes.get(pid)
        if pid in self._finished or (process and process.session):
            await session.close()
            return False
        is_new = process is None
        process = self._processes.setdefault(pid, Process(pid))
        process.session, self._newest = session, pid
        return is_new

    async def _adopt(self) -> None:
        """Find processes that there is no session with."""
        self._has_strangers = False
        self._finished = set(filter(_is_alive, self._finished))
        for name in sorted(filter(_MASTER_SOCKET.match, _list(
                self._directory))):
            with contextlib.suppress(sessions.Unreachable):
                said = await sessions.ask_once(self._directory, name,
                                               'show proc')
                for pid in (set(answers.parse_workers(said))
                            - self._finished):
                    self._processes.setdefault(pid, Process(pid)).master = name
        for pid in self.counters.processes() - self._processes.keys():
            self.counters.end(pid)

    async def _read(self, process: Process) -> None:
        """Read statistics and set states; forget a process that has ended."""
        try:
            now = time.monotonic()
            is_comparison = now >= process.compare_at or bool(
                self.kinds & answers.SERVERS)
            said, = await self._ask(process, [
                f'show stat -1 '
                f'{self.kinds | (answers.SERVERS if is_comparison else 0)} '
                '-1'])
            rows = answers.parse_statistics(said, self.rows + _ROWS_BESIDE)
            if is_comparison:
                process.servers = answers.maintenance(rows)
                process.compare_at = now + COMPARE_S
            process.rows = [row for row in rows if answers.kind(row)
                            & self.kinds]
            self.counters.take(process.pid, process.rows)
            await self._set(process)
            if process.is_done():
                await self._end(process)
        except sessions.Unreachable as error:
            await self._lose(process, error)

    async def _guard(self, process: Process) -> None:
        try:
            await self._set(process)
        except sessions.Unreachable as error:
            await self._lose(process, error)

    async def _set(self, process: Process) -> None:
        """Set the states of servers that are others. In a process that is
        about to end HAProxy has disabled the backends, and refuses that."""
        if process.is_ending():
            return
        changes = {server: self.states[server.name]
                   for server, is_off in process.servers.items()
                   if self.states.get(server.name, is_off) != is_off}
        if not changes:
            return
        said = await self._ask(process, [
            f'set server {server.backend}/{server.name} state '
            f'{"maint" if is_off else "ready"}'
            for server, is_off in changes.items()])
        process.servers.update(changes)
        refused = sorted(set(filter(None, said)))
        if refused:
            LOG.warning('HAProxy %s: states of members cannot be set: %s',
                        process.pid, refused[0][:200])

    async def _ask(self, process: Process, commands: Collection[str]
                   ) -> list[str]:
        if process.session:
            return await process.session.ask(commands)
        said = [await sessions.ask_once(
            self._directory, process.master or '',
            f'@!{process.pid} {command}', self._answer_max())
            for command in commands]
        if any(text.startswith(_SAYS_UNKNOWN_PID) for text in said):
            raise sessions.Ended(f'there is no process {process.pid}')
        return said

    async def _lose(self, process: Process, error: sessions.Unreachable
                    ) -> None:
        """Find out whether a process that does not answer has ended.

        :raises Unreachable: it has not.
        """
        if process.session:
            await process.session.close()
            process.session = None
        elif isinstance(error, sessions.Ended) or not process.master:
            await self._end(process)
            return
        if not _is_alive(process.pid):
            await self._end(process)
            return
        self._has_strangers = True
        raise error

    async def _end(self, process: Process) -> None:
        self.counters.end(process.pid)
        self._processes.pop(process.pid, None)
        self._finished.add(process.pid)
        if process.session:
            await process.session.close()

    def _answer_max(self) -> int:
        return sessions.answer_max(self.rows)


def _list(directory: pathlib.Path) -> Iterable[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return ()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
