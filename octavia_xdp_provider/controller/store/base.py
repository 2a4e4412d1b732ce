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
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

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

# Not UNIX_TIMESTAMP(NOW()): an hour of each year is ambiguous to it.
_MYSQL_NOW = ("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
              'UTC_TIMESTAMP(6)) / 1e6')
_CLOCKS = {
    'mysql': _MYSQL_NOW, 'mariadb': _MYSQL_NOW,
    'postgresql': 'SELECT extract(epoch FROM clock_timestamp())',
}
# Statements that are made once: to make one costs as much as to run it.
_NOW = {name: sa.text(text) for name, text in _CLOCKS.items()}
_CLOCK: dict[str, Any] = {
    name: sa.literal_column(f'({text})', sa.Double())
    for name, text in _CLOCKS.items()}
_SEQUENCE = models.Sequence.__table__
_DRAW = sa.update(_SEQUENCE).where(_SEQUENCE.c.id == 1).values(
    value=_SEQUENCE.c.value + 1)
_DRAWN = sa.select(_SEQUENCE.c.value).where(_SEQUENCE.c.id == 1)

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


def dialect(session: Any) -> str:
    """The name of the database that a session or a connection is to."""
    if not isinstance(session, sa.Connection):
        session = session.get_bind()
    return str(session.dialect.name)


def connection(session: Any) -> sa.Connection:
    """What runs statements about tables, which cost half of those about
    classes."""
    if isinstance(session, sa.Connection):
        return session
    found: sa.Connection = session.connection()
    return found


def clock(dialect_name: str) -> Any:
    """The database's time within a statement that is made once.

    A parameter "now" where the database has no clock.
    """
    return _CLOCK.get(dialect_name, sa.bindparam('now', type_=sa.Double()))


@functools.cache
def _marking(made_for: Any) -> Any:
    """The statement that marks an item, compiled for a dialect.

    SQLAlchemy compiles what it inserts or updates each time. All values are
    parameters, and only they are: so PyMySQL makes one message of many rows.
    """
    insert = _INSERT.get(made_for.name, mysql.insert)(
        models.Work.__table__).values({
            name: sa.bindparam(name) for name in (
                'load_balancer_id', 'version', 'due_at', 'failures')})
    return _unless_marked(insert, made_for.name).compile(dialect=made_for)


@functools.cache
def _marking_one(made_for: Any) -> Any:
    """The same of one item, which asks nobody for the time before."""
    insert = _INSERT.get(made_for.name, mysql.insert)(
        models.Work.__table__).values({
            'load_balancer_id': sa.bindparam('load_balancer_id'),
            'version': sa.literal_column('1'),
            'due_at': clock(made_for.name) + sa.bindparam(
                'delay_s', type_=sa.Double()),
            'failures': sa.literal_column('0')})
    return _unless_marked(insert, made_for.name).compile(dialect=made_for)


def _unless_marked(insert: Any, dialect_name: str) -> Any:
    """What is in the queue already is due at the earlier of two times."""
    work = models.Work.__table__.c
    new = insert.excluded if dialect_name in _INSERT else insert.inserted
    changed = {
        'version': work.version + sa.literal_column('1'),
        'due_at': sa.case((work.due_at < new.due_at, work.due_at),
                          else_=new.due_at)}
    if dialect_name in _INSERT:
        return insert.on_conflict_do_update(
            index_elements=['load_balancer_id'], set_=changed)
    return insert.on_duplicate_key_update(**changed)


class Total(expression.FunctionElement[Any]):
    """The sum of a column of counters.

    SQLite's own gives an error where it is beyond 63 bits, and nobody's
    counters may do that to whoever adds up all.
    """

    inherit_cache = True


@compiler.compiles(Total)
def _sum(element: Any, made_by: Any, **more: Any) -> str:
    return f'sum({made_by.process(element.clauses, **more)})'


@compiler.compiles(Total, 'sqlite')
def _sum_of_floats(element: Any, made_by: Any, **more: Any) -> str:
    return f'total({made_by.process(element.clauses, **more)})'


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
        self._writer = manager.writer.get_engine()
        self._reader = manager.reader.get_engine()
        name = self._writer.dialect.name
        self._is_sqlite = name == 'sqlite'
        # Others show a transaction that reads one state by themselves.
        # PostgreSQL's writers do without: they would be turned away where
        # they can wait.
        self._reading = ({'isolation_level': 'REPEATABLE READ'}
                         if name == 'postgresql' else None)
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

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """The same as _write for statements about tables.

        What every change needs uses it: a session's bookkeeping costs more
        than most statements.
        """
        with self._lock, self._writer.connect() as opened:
            if self._is_sqlite:
                opened = opened.execution_options(**{sqlite.WRITES: True})
            with opened.begin():
                yield opened

    @contextlib.contextmanager
    def _reading_rows(self) -> Iterator[sa.Connection]:
        """The same as _read for statements about tables."""
        with self._reader.connect() as opened:
            if self._reading:
                opened = opened.execution_options(**self._reading)
            yield opened  # There is nothing to commit.

    @staticmethod
    def _now(session: Any) -> float:
        """Seconds since the epoch, by the database's clock.

        Clocks of several controllers differ. SQLite has none of its own; all
        who use one file are on one machine.
        """
        statement = _NOW.get(dialect(session))
        if statement is None:
            return time.time()
        return float(connection(session).execute(statement).scalar_one())

    @classmethod
    def _clock(cls, session: Any) -> Any:
        """The same for use within a statement, which asks nobody before."""
        found = _CLOCK.get(dialect(session))
        return cls._now(session) if found is None else found

    @classmethod
    def _timed(cls, session: Any, statement: Callable[[str], Any],
               values: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """A statement that is made once, and its parameters.

        :param statement: makes it of the dialect's name, with clock().
        """
        name = dialect(session)
        if name not in _CLOCK:
            values = {**values, 'now': cls._now(session)}
        return statement(name), values

    @staticmethod
    def _draw(session: Any) -> None:
        """Draw a generation. To be called before anything is read.

        The update makes others wait, or fail when they commit: a reader
        that sees this generation has seen all that came before it.
        """
        connection(session).execute(_DRAW)

    @classmethod
    def _next_generation(cls, session: Any) -> int:
        """The same; returns it."""
        cls._draw(session)
        return int(connection(session).execute(_DRAWN).scalar_one())

    @staticmethod
    def _doubt_sent(session: Any, load_balancer_id: str) -> None:
        """What Octavia was sent last is not known: all is sent once more.

        Whoever sent it died before it could be noted, or got no answer.
        """
        table = models.LoadBalancer.__table__
        session.execute(sa.update(table).where(
            table.c.id == load_balancer_id).values(sent_statuses=None))

    @classmethod
    def _mark_work(cls, session: Any, load_balancer_ids: Iterable[str],
                   delay_s: float = 0.0) -> None:
        """Have somebody look at load balancers, in this transaction.

        :param delay_s: not before so many seconds; an item that is due
            earlier stays so.
        """
        ids = sorted(set(load_balancer_ids))
        if not ids:
            return
        opened = connection(session)
        values: list[dict[str, Any]]
        if len(ids) == 1:
            statement = _marking_one(opened.dialect)
            values = [{'load_balancer_id': ids[0], 'delay_s': delay_s}]
            if opened.dialect.name not in _CLOCK:
                values[0]['now'] = cls._now(session)
        else:
            statement = _marking(opened.dialect)
            due_at = cls._now(session) + delay_s
            values = [{'load_balancer_id': key, 'version': 1,
                       'due_at': due_at, 'failures': 0} for key in ids]
        parameters: list[Any] = values
        if statement.positional:
            parameters = [tuple(one[name] for name in statement.positiontup)
                          for one in values]
        opened.exec_driver_sql(str(statement), parameters)

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
        name = dialect(session)
        connection(session).execute(_unless_marked(
            _INSERT.get(name, mysql.insert)(
                models.Work.__table__).from_select(
                    ['load_balancer_id', 'version', 'due_at', 'failures'],
                    found, include_defaults=False), name))


class _Context:
    """enginefacade hangs its session on a context of the caller's."""
