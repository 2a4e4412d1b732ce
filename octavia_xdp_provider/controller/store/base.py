# SPDX-License-Identifier: Apache-2.0
"""Transactions, the database's clock and generations.

Several controllers write to one database. Nothing relies on row locks between
transactions: on a Galera cluster there are none between servers, and the
second transaction fails when it commits. Changes compare and set by their
WHERE clause, or draw a generation first, which makes all of them write one
row; and every transaction that the database has rejected as a whole is
retried (``retried``).
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import functools
import threading
import time
from typing import Any
from typing import TypeAlias
from typing import TypeVar

from oslo_db import api as db_api
from oslo_db import exception as db_exception
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import sqlite

Function = TypeVar('Function', bound=Callable[..., Any])
Session: TypeAlias = orm.Session | sa.Connection

# Ids in one statement: databases limit its length and number of parameters.
CHUNK = 500

# Texts of errors after which a retry may succeed, besides those that oslo.db
# recognizes as deadlocks: SQLite's lock; PostgreSQL's serialization; MariaDB's
# snapshot isolation (ER_CHECKREAD).
_TRANSIENT = ('database is locked', 'database table is locked',
              'could not serialize access', '(1020, ')

# Not UNIX_TIMESTAMP(NOW()), which is ambiguous for one hour of each year.
_MYSQL_NOW = ("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
              'UTC_TIMESTAMP(6)) / 1e6')
_CLOCKS = {
    'mysql': _MYSQL_NOW, 'mariadb': _MYSQL_NOW,
    'postgresql': 'SELECT extract(epoch FROM clock_timestamp())',
}
# Statements that are built once: building one costs as much as running it.
_NOW = {name: sa.text(text) for name, text in _CLOCKS.items()}
_CLOCK: dict[str, Any] = {name: sa.literal_column(f'({text})', sa.Double())
                          for name, text in _CLOCKS.items()}
_SEQUENCE = models.Sequence.__table__
_DRAW = sa.update(_SEQUENCE).where(_SEQUENCE.c.id == 1).values(
    value=_SEQUENCE.c.value + 1)
_DRAWN = sa.select(_SEQUENCE.c.value).where(_SEQUENCE.c.id == 1)


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, db_exception.DBDuplicateEntry):
        # Two transactions have inserted one row: a retry finds it.
        return True
    return isinstance(error, db_exception.DBError) and any(
        text in str(error) for text in _TRANSIENT)


def retried(function: Function) -> Function:
    """Decorate a function to be retried if the database has rejected it.

    It must be one transaction, so that all its effects are rolled back.
    """
    wrapped = db_api.wrap_db_retry(
        max_retries=10, retry_interval=0.05, inc_retry_interval=True,
        max_retry_interval=2, jitter=True, retry_on_deadlock=True,
        exception_checker=_is_transient)(function)
    return functools.wraps(function)(wrapped)  # type: ignore[return-value]


def dialect(session: Session) -> str:
    """Return the name of the database of a session or a connection."""
    if isinstance(session, sa.Connection):
        return session.dialect.name
    return session.get_bind().dialect.name


def connection(session: Session) -> sa.Connection:
    """Return the connection of a session, for statements on tables, which
    cost half of those on classes."""
    return (session if isinstance(session, sa.Connection)
            else session.connection())


def clock(dialect_name: str) -> Any:
    """Return an expression for the database's time in a prebuilt statement.

    It is a parameter "now" if the database has no clock.
    """
    return _CLOCK.get(dialect_name, sa.bindparam('now', type_=sa.Double()))


class Total(expression.FunctionElement[Any]):
    """The sum of a column of counters.

    SQLite's own sum() fails beyond 63 bits, and the counters of one tenant
    must not break sums over all.
    """

    inherit_cache = True


@compiler.compiles(Total)
def _sum(element: Any, made_by: Any, **more: Any) -> str:
    return f'sum({made_by.process(element.clauses, **more)})'


@compiler.compiles(Total, 'sqlite')
def _sum_of_floats(element: Any, made_by: Any, **more: Any) -> str:
    return f'total({made_by.process(element.clauses, **more)})'


def chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    """Split ids into sorted lists that fit into a statement.

    They are sorted so that all transactions lock rows in the same order.
    """
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start:start + CHUNK]


class Database:
    """Transactions of one database, which all queries share."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._writer = manager.writer.get_engine()
        self._reader = manager.reader.get_engine()
        name = self._writer.dialect.name
        self._is_sqlite = name == 'sqlite'
        # Other databases show readers one state by default. PostgreSQL's
        # writers do not use this level: they would fail instead of waiting.
        self._reading = ({'isolation_level': 'REPEATABLE READ'}
                         if name == 'postgresql' else None)
        # A lock is fairer to the threads of a process than SQLite, where each
        # writer retries after a while.
        self._lock: Any = (threading.Lock() if self._is_sqlite
                           else contextlib.nullcontext())

    @contextlib.contextmanager
    def write(self) -> Iterator[Any]:
        """Open a transaction that writes; for ``retried`` methods."""
        with self._lock, self._manager.writer.using(_Context()) as session:
            if self._is_sqlite:
                session.connection(execution_options={sqlite.WRITES: True})
            yield session

    @contextlib.contextmanager
    def read(self) -> Iterator[Any]:
        """Open a transaction that reads one state, despite other writers."""
        with self._manager.reader.using(_Context()) as session:
            if self._reading:
                session.connection(execution_options=self._reading)
            yield session

    @contextlib.contextmanager
    def write_rows(self) -> Iterator[sa.Connection]:
        """The same as write() for statements on tables.

        It is used on the path of every change, because a session's
        bookkeeping costs more than most statements.
        """
        with self._lock, self._writer.connect() as opened:
            if self._is_sqlite:
                opened = opened.execution_options(**{sqlite.WRITES: True})
            with opened.begin():
                yield opened

    @contextlib.contextmanager
    def read_rows(self) -> Iterator[sa.Connection]:
        """The same as read() for statements on tables."""
        with self._reader.connect() as opened:
            if self._reading:
                opened = opened.execution_options(**self._reading)
            yield opened  # there is nothing to commit

    def now(self) -> float:
        """Return the database's time, in seconds since the epoch."""
        with self.read() as session:
            return now(session)


class _Context:
    """The context object on which enginefacade stores its session."""


class Queries:
    """Queries of some tables, each in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database


def now(session: Session) -> float:
    """Return seconds since the epoch by the database's clock.

    Clocks of controllers differ. SQLite has no clock, but all processes
    that use its file are on one machine.
    """
    statement = _NOW.get(dialect(session))
    if statement is None:
        return time.time()
    return float(connection(session).execute(statement).scalar_one())


def now_expression(session: Session) -> Any:
    """Return the same as an expression, without a query if possible."""
    column = _CLOCK.get(dialect(session))
    return now(session) if column is None else column


def timed(session: Session, statement: Callable[[str], Any],
          values: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a prebuilt statement and its parameters.

    :param statement: returns it for the dialect's name; uses clock().
    """
    name = dialect(session)
    if name not in _CLOCK:
        values = {**values, 'now': now(session)}
    return statement(name), values


def draw(session: Session) -> None:
    """Draw a generation. Must be called before anything is read.

    The update makes other transactions wait, or fail when they commit: a
    reader that sees this generation sees all earlier ones.
    """
    connection(session).execute(_DRAW)


def next_generation(session: Session) -> int:
    """Draw a generation and return it."""
    draw(session)
    return int(connection(session).execute(_DRAWN).scalar_one())
