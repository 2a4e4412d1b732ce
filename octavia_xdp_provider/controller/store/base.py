# SPDX-License-Identifier: Apache-2.0
"""Transactions, the database's clock, generations and marks of work.

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


def dialect(session: Any) -> str:
    """Return the name of the database of a session or a connection."""
    if not isinstance(session, sa.Connection):
        session = session.get_bind()
    return str(session.dialect.name)


def connection(session: Any) -> sa.Connection:
    """Return the connection of a session, for statements on tables, which
    cost half of those on classes."""
    if isinstance(session, sa.Connection):
        return session
    result: sa.Connection = session.connection()
    return result


def clock(dialect_name: str) -> Any:
    """Return an expression for the database's time in a prebuilt statement.

    It is a parameter "now" if the database has no clock.
    """
    return _CLOCK.get(dialect_name, sa.bindparam('now', type_=sa.Double()))


@functools.cache
def _marking(made_for: Any) -> Any:
    """Return the statement that marks items, compiled for a dialect.

    SQLAlchemy would compile such a statement each time. All values are
    parameters, and nothing else is, so that PyMySQL sends many rows at once.
    """
    insert = _INSERT.get(made_for.name, mysql.insert)(
        models.Work.__table__).values({
            name: sa.bindparam(name) for name in (
                'load_balancer_id', 'version', 'due_at', 'failures')})
    return _unless_marked(insert, made_for.name).compile(dialect=made_for)


@functools.cache
def _marking_one(made_for: Any) -> Any:
    """The same for one item, without a query for the time before."""
    insert = _INSERT.get(made_for.name, mysql.insert)(
        models.Work.__table__).values({
            'load_balancer_id': sa.bindparam('load_balancer_id'),
            'version': sa.literal_column('1'),
            'due_at': clock(made_for.name) + sa.bindparam(
                'delay_s', type_=sa.Double()),
            'failures': sa.literal_column('0')})
    return _unless_marked(insert, made_for.name).compile(dialect=made_for)


def _unless_marked(insert: Any, dialect_name: str) -> Any:
    """Make items that are already in the queue due at the earlier time."""
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


class Base:
    """Access to the database."""

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
    def _write(self) -> Iterator[Any]:
        """Open a transaction that writes; for ``retried`` methods."""
        with self._lock, self._manager.writer.using(_Context()) as session:
            if self._is_sqlite:
                session.connection(execution_options={sqlite.WRITES: True})
            yield session

    @contextlib.contextmanager
    def _read(self) -> Iterator[Any]:
        """Open a transaction that reads one state, despite other writers."""
        with self._manager.reader.using(_Context()) as session:
            if self._reading:
                session.connection(execution_options=self._reading)
            yield session

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """The same as _write for statements on tables.

        It is used on the path of every change, because a session's
        bookkeeping costs more than most statements.
        """
        with self._lock, self._writer.connect() as opened:
            if self._is_sqlite:
                opened = opened.execution_options(**{sqlite.WRITES: True})
            with opened.begin():
                yield opened

    @contextlib.contextmanager
    def _reading_rows(self) -> Iterator[sa.Connection]:
        """The same as _read for statements on tables."""
        with self._reader.connect() as opened:
            if self._reading:
                opened = opened.execution_options(**self._reading)
            yield opened  # there is nothing to commit

    @staticmethod
    def _now(session: Any) -> float:
        """Return seconds since the epoch by the database's clock.

        Clocks of controllers differ. SQLite has no clock, but all processes
        that use its file are on one machine.
        """
        statement = _NOW.get(dialect(session))
        if statement is None:
            return time.time()
        return float(connection(session).execute(statement).scalar_one())

    @classmethod
    def _clock(cls, session: Any) -> Any:
        """Return the same as an expression, without a query if possible."""
        column = _CLOCK.get(dialect(session))
        return cls._now(session) if column is None else column

    @classmethod
    def _timed(cls, session: Any, statement: Callable[[str], Any],
               values: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return a prebuilt statement and its parameters.

        :param statement: returns it for the dialect's name; uses clock().
        """
        name = dialect(session)
        if name not in _CLOCK:
            values = {**values, 'now': cls._now(session)}
        return statement(name), values

    @staticmethod
    def _draw(session: Any) -> None:
        """Draw a generation. Must be called before anything is read.

        The update makes other transactions wait, or fail when they commit: a
        reader that sees this generation sees all earlier ones.
        """
        connection(session).execute(_DRAW)

    @classmethod
    def _next_generation(cls, session: Any) -> int:
        """Draw a generation and return it."""
        cls._draw(session)
        return int(connection(session).execute(_DRAWN).scalar_one())

    @staticmethod
    def _doubt_sent(session: Any, load_balancer_id: str) -> None:
        """Have all statuses sent to Octavia again, as it is not known which
        it has.

        Their sender died before it stored them, or got no answer.
        """
        table = models.LoadBalancer.__table__
        session.execute(sa.update(table).where(
            table.c.id == load_balancer_id).values(sent_statuses=None))

    @classmethod
    def _mark_work(cls, session: Any, load_balancer_ids: Iterable[str],
                   delay_s: float = 0.0) -> None:
        """Put load balancers into the work queue, in this transaction.

        :param delay_s: seconds until they are due; an item that is already
            due earlier stays so.
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
            parameters = [tuple(row[name] for name in statement.positiontup)
                          for row in values]
        opened.exec_driver_sql(str(statement), parameters)

    @classmethod
    def _mark_selected(cls, session: Any, ids: Any,
                       delay_s: float = 0.0) -> None:
        """Put load balancers that a query selects into the work queue.

        :param ids: a select of one column, with a WHERE clause.
        """
        due_at = cls._now(session) + delay_s
        selected = ids.with_only_columns(
            ids.selected_columns[0], sa.literal(1), sa.literal(due_at),
            sa.literal(0)).distinct()
        name = dialect(session)
        connection(session).execute(_unless_marked(
            _INSERT.get(name, mysql.insert)(
                models.Work.__table__).from_select(
                    ['load_balancer_id', 'version', 'due_at', 'failures'],
                    selected, include_defaults=False), name))


class _Context:
    """The context object on which enginefacade stores its session."""
