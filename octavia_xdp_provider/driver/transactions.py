# SPDX-License-Identifier: Apache-2.0
"""Tracks the database transaction in which Octavia calls the driver.

Octavia calls the driver within an open transaction of its database, and
commits it a moment later. SQLAlchemy's events tell in which thread a session
begins and ends a transaction. If exactly one session has an open transaction
in this thread, it is the caller's, and the controller can be told of its end.
Otherwise the controller has to ask Octavia.
"""

from collections.abc import Callable
import threading
from typing import Any
import weakref

import sqlalchemy as sa
from sqlalchemy import orm


class _Thread(threading.local):
    """Open transactions of this thread: id of a session → Transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[int, Transaction] = {}


_thread = _Thread()
_lock = threading.Lock()
_watching = False


class Transaction:
    """An open transaction.

    :ivar session: a weak reference: a session that is garbage-collected
        ends without an event.
    :ivar committed: whether the commit succeeded.
    :ivar commit_attempted: whether a commit has begun. If it has, and
        ``committed`` is false, the outcome is unknown: the answer was lost.
    :ivar new_rows: rows that it inserted, by the name of their table. They
        are SQLAlchemy's objects, so that later changes show in them.
    """

    def __init__(self, session: orm.Session) -> None:
        self.session = weakref.ref(session)
        self.committed = False
        self.commit_attempted = False
        self.new_rows: dict[str, list[Any]] = {}
        self._callbacks: list[Callable[[bool], object]] = []

    def on_end(self, callback: Callable[[bool], object]) -> None:
        """Call ``callback(committed)`` once the transaction has ended.

        It is called in the transaction's thread, and must neither block nor
        raise.
        """
        self._callbacks.append(callback)

    def end(self) -> None:
        for callback in self._callbacks:
            callback(self.committed)


def watch() -> None:
    """Track transactions from now on. Further calls have no effect."""
    global _watching
    with _lock:
        if _watching:
            return
        for name, function in (('after_begin', _after_begin),
                               ('after_flush', _after_flush),
                               ('before_commit', _before_commit),
                               ('after_commit', _after_commit),
                               ('after_transaction_end', _after_end)):
            sa.event.listen(orm.Session, name, function)
        _watching = True


def current() -> Transaction | None:
    """Return the caller's Transaction, or None if it is not known."""
    for key, transaction in list(_thread.open.items()):
        if transaction.session() is None:
            del _thread.open[key]
    if len(_thread.open) != 1:
        return None
    transaction, = _thread.open.values()
    return transaction


def _after_begin(session: orm.Session,
                 session_transaction: orm.SessionTransaction,
                 connection: sa.Connection) -> None:
    transaction = _thread.open.get(id(session))
    if transaction is None or transaction.session() is not session:
        _thread.open[id(session)] = Transaction(session)


def _after_flush(session: orm.Session, flush_context: orm.UOWTransaction
                 ) -> None:
    transaction = _thread.open.get(id(session))
    if transaction is not None:
        for row in session.new:
            if hasattr(row, '__tablename__'):
                transaction.new_rows.setdefault(
                    row.__tablename__, []).append(row)


def _before_commit(session: orm.Session) -> None:
    # Also called for savepoints.
    transaction = _thread.open.get(id(session))
    if transaction is not None and not session.in_nested_transaction():
        transaction.commit_attempted = True


def _after_commit(session: orm.Session) -> None:
    # Also called for savepoints, which leave the transaction open.
    transaction = _thread.open.get(id(session))
    if transaction is not None and not session.in_nested_transaction():
        transaction.committed = True


def _after_end(session: orm.Session,
               session_transaction: orm.SessionTransaction) -> None:
    if session_transaction.parent is not None:
        return
    transaction = _thread.open.pop(id(session), None)
    if transaction is not None:
        transaction.end()
