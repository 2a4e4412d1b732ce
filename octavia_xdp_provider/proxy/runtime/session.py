# SPDX-License-Identifier: Apache-2.0
"""Conversations with HAProxy over the sockets in a load balancer's directory.

The directory belongs to a process that may have been taken over. A socket is
therefore opened without following links, and must belong to the uid of the
directory; answers are bounded in size and time.
"""

import asyncio
from collections.abc import Iterable
import contextlib
import os
import pathlib
import stat

# Most bytes of an answer, of one with this many rows of statistics: a row has
# less than 1 KiB.
_ANSWER_MAX, _ROW_MAX = 1 << 18, 1 << 12
TIMEOUT_S = 2.0
# HAProxy closes a session that is idle for longer. Until then a process that
# has no more clients does not end if this agent hangs.
_IDLE_S = 60
_PROMPT = b'\n> '
# Commands that are sent before their answers are read: less than HAProxy's
# buffer, and than what it may have to say meanwhile.
_BATCH = 50


class Unreachable(Exception):
    """A process does not answer, or not as HAProxy does."""


class Ended(Unreachable):
    """The other side has closed the connection."""


def answer_max(rows: int) -> int:
    return _ANSWER_MAX + rows * _ROW_MAX


async def connect(directory: pathlib.Path, name: str,
                  limit: int = _ANSWER_MAX
                  ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return both directions of a connection.

    :raises Unreachable: nobody answers there, or a socket of another user.
    """
    try:
        file = os.open(directory / name,
                       os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise Unreachable(f'{name}: {error.strerror}') from error
    try:
        status = os.fstat(file)
        if not stat.S_ISSOCK(status.st_mode) or (
                status.st_uid != os.stat(directory).st_uid):
            raise Unreachable(f'{name} is no socket of this load balancer')
        reader, writer = await asyncio.wait_for(
            asyncio.open_unix_connection(f'/proc/self/fd/{file}',
                                         limit=limit), TIMEOUT_S)
    except (OSError, asyncio.TimeoutError) as error:
        raise Unreachable(f'{name}: {error}') from error
    finally:
        os.close(file)
    return reader, writer


async def ask_once(directory: pathlib.Path, name: str, command: str,
                   limit: int = _ANSWER_MAX) -> str:
    """Return the answer to a command, on a connection of its own.

    :raises Unreachable: there is none.
    """
    reader, writer = await connect(directory, name)
    try:
        writer.write(f'{command}\n'.encode())
        writer.write_eof()
        answer = await asyncio.wait_for(_read_all(reader, limit), TIMEOUT_S)
    except (OSError, asyncio.TimeoutError) as error:
        raise Unreachable(f'{name}: {error}') from error
    finally:
        await _close(writer)
    return answer.decode(errors='replace').strip()


class Session:
    """A connection to one process that stays open.

    As long as it is, HAProxy does not end, not even after a reload when it
    has no more clients: so its last counters can be read.
    """

    def __init__(self, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, directory: pathlib.Path, name: str, limit: int
                   ) -> 'Session':
        """Return a session with the process that has the socket now.

        :raises Unreachable: there is none.
        """
        session = cls(*await connect(directory, name, limit))
        try:
            await session.ask(['prompt', f'set timeout cli {_IDLE_S}'])
        except BaseException:
            await session.close()
            raise
        return session

    async def ask(self, commands: Iterable[str]) -> list[str]:
        """Return the answers to commands.

        :raises Unreachable: one is missing. The session is of no more use.
        """
        commands = list(commands)
        answers: list[str] = []
        while len(answers) < len(commands):
            batch = commands[len(answers):len(answers) + _BATCH]
            try:
                self._writer.write(
                    ''.join(f'{command}\n' for command in batch).encode())
                answers += await asyncio.wait_for(
                    self._read(len(batch)), TIMEOUT_S)
            except asyncio.TimeoutError as error:
                raise Unreachable('no answer') from error
            except asyncio.LimitOverrunError as error:
                raise Unreachable('an answer without an end') from error
            except (OSError, asyncio.IncompleteReadError) as error:
                raise Ended('the connection has ended') from error
        return answers

    async def _read(self, count: int) -> list[str]:
        return [(await self._reader.readuntil(_PROMPT)).removesuffix(
            _PROMPT).decode(errors='replace').strip() for _ in range(count)]

    async def close(self) -> None:
        await _close(self._writer)


async def _read_all(reader: asyncio.StreamReader, limit: int) -> bytes:
    """Return what comes until the end, or until it is too much."""
    answer = b''
    while len(answer) < limit and (part := await reader.read(1 << 16)):
        answer += part
    return answer


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
