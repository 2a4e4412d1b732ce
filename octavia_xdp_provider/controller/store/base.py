# SPDX-License-Identifier: Apache-2.0
"""Transactions, the database's clock, generations and marks of work.

Several controllers write to one database. Nothing relies on row locks that
one transaction holds against another: on a Galera cluster there are none
between servers, and who comes second fails when it commits. Changes compare
and set by their WHERE clause, or draw a generation first, which is a write
of one row by all; and every transaction that the database turned away as a
whole is run again (``retried``).
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import functools
import operator
import threading
import time
from typing import Any
from typing import TypeVar

from oslo_db import api as db_api
from oslo_db import exception as db_exception
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as sqlite_dialect

from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import sqlite

Function = TypeVar('Function', bound=Callable[..., Any])

# Ids in one statement: databases limit its length and its parameters.
CHUNK = 500

# Texts of errors after which the same transaction may succeed, beyond those
# that oslo.db knows as deadlocks: SQLite's lock; PostgreSQL's serialisation;
# MariaDB's snapshot isolation (ER_CHECKREAD).
_TRANSIENT = ('database is locked', 'database table is locked',
              'could not serialize access', '(1020, ')

_NOW = {
    # Not UNIX_TIMESTAMP(NOW()): an hour of each year is ambiguous to it.
    'mysql': "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
             'UTC_TIMESTAMP(6)) / 1e6',
    'mariadb': "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
               'UTC_TIMESTAMP(6)) / 1e6',
    'postgresql': 'SELECT extract(epoch FROM clock_timestamp())',
}

_INSERT: dict[str, Callable[[Any], Any]] = {
    'sqlite': sqlite_dialect.insert, 'postgresql': postgresql.insert}


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, db_exception.DBDuplicateEntry):
        # Two have inserted one row: the second one finds it next time.
        return True
    return isinstance(error, db_exception.DBError) and any(
        text in str(error) for text in _TRANSIENT)


def retried(function: Function) -> Function:
    """Run a function again that the database turned away as a whole.

    It must be one transaction: what it did has been rolled back.
    """
    wrapped = db_api.wrap_db_retry(
        max_retries=10, retry_interval=0.05, inc_retry_interval=True,
        max_retry_interval=2, jitter=True, retry_on_deadlock=True,
        exception_checker=_is_transient)(function)
    return functools.wraps(function)(wrapped)  # type: ignore[return-value]


def chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    """Ids in sorted lists that fit into a statement.

    Sorted, so that two transactions lock rows in the same order.
    """
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start:start + CHUNK]


class Base:
    """Access to the database."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        dialect = manager.writer.get_engine().dialect.name
        self._is_sqlite = dialect == 'sqlite'
        # Others show a transaction that reads one state by themselves.
        # PostgreSQL's writers do without: they would be turned away where
        # they can wait.
        self._reading = ({'isolation_level': 'REPEATABLE READ'}
                         if dialect == 'postgresql' else None)
        # Threads of one process take turns more fairly than SQLite lets
        # them, which has each writer try again after a while.
        self._lock: Any = (threading.Lock() if self._is_sqlite
                           else contextlib.nullcontext())

    @contextlib.contextmanager
    def _write(self) -> Iterator[Any]:
        """A transaction that writes; in a ``retried`` method."""
        with self._lock, self._manager.writer.using(_Context()) as session:
            if self._is_sqlite:
                session.connection(execution_options={sqlite.WRITES: True})
            yield session

    @contextlib.contextmanager
    def _read(self) -> Iterator[Any]:
        """A transaction that sees one state, whoever writes meanwhile."""
        with self._manager.reader.using(_Context()) as session:
            if self._reading:
                session.connection(execution_options=self._reading)
            yield session

    @staticmethod
    def _now(session: Any) -> float:
        """Seconds since the epoch, by the database's clock.

        Clocks of several controllers differ. SQLite has none of its own; all
        who use one file are on one machine.
        """
        statement = _NOW.get(session.get_bind().dialect.name)
        if statement is None:
            return time.time()
        return float(session.execute(sa.text(statement)).scalar())

    @classmethod
    def _clock(cls, session: Any) -> Any:
        """The same for use within a statement, which asks nobody before."""
        statement = _NOW.get(session.get_bind().dialect.name)
        if statement is None:
            return cls._now(session)
        return sa.literal_column(f'({statement})', sa.Double())

    @staticmethod
    def _next_generation(session: Any) -> int:
        """Draw a generation. To be called before anything else is read.

        The update makes others wait, or fail when they commit: a reader
        that sees this generation has seen all that came before it.
        """
        table = models.Sequence.__table__
        session.execute(sa.update(table).where(table.c.id == 1).values(
            value=table.c.value + 1))
        return int(session.execute(sa.select(table.c.value).where(
            table.c.id == 1)).scalar_one())

    @staticmethod
    def _doubt_told(session: Any, load_balancer_id: str) -> None:
        """What Octavia was told last is not known: all is told once more.

        Whoever told it died before he could note it, or got no answer.
        """
        session.execute(sa.update(models.LoadBalancer).where(
            models.LoadBalancer.id == load_balancer_id).values(told=None))

    @classmethod
    def _mark_work(cls, session: Any, load_balancer_ids: Iterable[str],
                   delay_s: float = 0.0) -> None:
        """Have somebody look at load balancers, in this transaction.

        :param delay_s: not before so many seconds; an item that is due
            earlier stays so.
        """
        due_at = cls._clock(session) + delay_s
        for ids in chunks(load_balancer_ids):
            items = [{'load_balancer_id': key, 'version': 1,
                      'due_at': due_at, 'failures': 0} for key in ids]
            cls._insert_work(session, operator.methodcaller('values', items))

    @classmethod
    def _mark_selected(cls, session: Any, ids: Any,
                       delay_s: float = 0.0) -> None:
        """Have somebody look at what a query finds, in one statement.

        :param ids: a select of one column, with a WHERE clause.
        """
        due_at = cls._now(session) + delay_s
        found = ids.with_only_columns(
            ids.selected_columns[0], sa.literal(1), sa.literal(due_at),
            sa.literal(0)).distinct()
        cls._insert_work(session, operator.methodcaller(
            'from_select', ['load_balancer_id', 'version', 'due_at',
                            'failures'], found, include_defaults=False))

    @staticmethod
    def _insert_work(session: Any, fill: Callable[[Any], Any]) -> None:
        dialect = session.get_bind().dialect.name
        insert = fill(_INSERT.get(dialect, mysql.insert)(models.Work))
        new = insert.excluded if dialect in _INSERT else insert.inserted
        due_at = models.Work.due_at
        changed = {
            'version': models.Work.version + 1,
            'due_at': sa.case((due_at < new.due_at, due_at),
                              else_=new.due_at)}
        if dialect in _INSERT:
            insert = insert.on_conflict_do_update(
                index_elements=['load_balancer_id'], set_=changed)
        else:
            insert = insert.on_duplicate_key_update(**changed)
        session.execute(insert)


class _Context:
    """enginefacade hangs its session on a context of the caller's."""
