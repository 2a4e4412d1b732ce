# SPDX-License-Identifier: Apache-2.0
"""Runs of "sync" in the database: their progress and result."""

import dataclasses

from bench import errors
from testbed import database
from testbed import leases

RUNNING, DONE, FAILED = 'running', 'done', 'failed'
# The process ended without recording a result.
KILLED = 'killed'
TEXT_MAX = 20_000


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of "sync"."""

    number: int
    who: str
    started: int
    ended: int | None
    state: str
    text: str


class Runs:
    """The runs of a site."""

    def __init__(self, site: leases.Leases):
        self._site = site

    def begin(self, who: str) -> int:
        """Record a new run and return its number.

        The caller holds the lock of "sync", so runs recorded as running were
        killed.
        """
        table = database.RUNS
        with self._site.engine.begin() as connection:
            connection.execute(table.update().where(
                table.c.state == RUNNING).values(
                state=KILLED, ended=self._site.now()))
            return int(connection.execute(table.insert().values(
                who=who, started=self._site.now(), state=RUNNING, text='',
            )).inserted_primary_key[0])

    def say(self, number: int, text: str) -> None:
        """Add a line to the text of a run."""
        table = database.RUNS
        with self._site.engine.begin() as connection:
            connection.execute(table.update().where(
                table.c.id == number).values(text=table.c.text + text + '\n'))

    def end(self, number: int, error: errors.BenchError | None = None) -> None:
        """Record how a run ended."""
        if error is not None:
            self.say(number, str(error)[-TEXT_MAX:])
        table = database.RUNS
        with self._site.engine.begin() as connection:
            connection.execute(table.update().where(
                table.c.id == number).values(
                state=FAILED if error else DONE, ended=self._site.now()))

    def last(self, running: bool) -> Run | None:
        """Return the newest run, or None.

        :param running: whether a process holds the lock of "sync".
        """
        table = database.RUNS
        with self._site.engine.begin() as connection:
            row = connection.execute(table.select().order_by(
                table.c.id.desc()).limit(1)).one_or_none()
        if row is None:
            return None
        state = KILLED if row.state == RUNNING and not running else row.state
        return Run(row.id, row.who, row.started, row.ended, state, row.text)
