# SPDX-License-Identifier: Apache-2.0
"""When the transaction ends in which Octavia calls the driver.

Octavia calls the driver within an open transaction of its database, and
commits it a moment later. SQLAlchemy says in which thread a session begins
and ends one: the session that has one open in this thread, where there is
just one, is the caller's. Whoever waits for the commit need not ask Octavia
then. Where this says nothing, Octavia is asked.
"""

import threading
import weakref

import sqlalchemy as sa
from sqlalchemy import orm


class _Thread(threading.local):
    """Open transactions of this thread: id of a session → Transaction."""

    def __init__(self):
        super().__init__()
        self.open = {}


_thread = _Thread()
_lock = threading.Lock()
_watching = False


class Transaction:
    """One that is open.

    :ivar session: a weak reference: one that nobody has any more ends
        without a word.
    :ivar made: names of the tables that it has new rows of.
    :ivar tried: whether a commit has begun. One that was tried and is not
        known to be committed may be so: the answer was lost.
    """

    def __init__(self, session):
        self.session = weakref.ref(session)
        self.committed = False
        self.tried = False
        self.made = set()
        self._functions = []

    def then(self, function):
        """Call a function with whether it was committed, once it has ended.

        In the thread of the transaction, which the function must not hold
        up, nor fail.
        """
        self._functions.append(function)

    def end(self):
        for function in self._functions:
            function(self.committed)


def watch():
    """Notice transactions from now on. May be called again."""
    global _watching
    with _lock:
        if _watching:
            return
        for name, function in (('after_begin', _begun),
                               ('after_flush', _flushed),
                               ('before_commit', _tried),
                               ('after_commit', _committed),
                               ('after_transaction_end', _ended)):
            sa.event.listen(orm.Session, name, function)
        _watching = True


def current():
    """The caller's Transaction; None if that is not known."""
    for key, found in list(_thread.open.items()):
        if found.session() is None:
            del _thread.open[key]
    if len(_thread.open) != 1:
        return None
    transaction, = _thread.open.values()
    return transaction


def _begun(session, transaction, connection):
    found = _thread.open.get(id(session))
    if found is None or found.session() is not session:
        _thread.open[id(session)] = Transaction(session)


def _flushed(session, flush_context):
    found = _thread.open.get(id(session))
    if found is not None:
        found.made.update(one.__tablename__ for one in session.new
                          if hasattr(one, '__tablename__'))


def _tried(session):
    # Also called for savepoints.
    found = _thread.open.get(id(session))
    if found is not None and not session.in_nested_transaction():
        found.tried = True


def _committed(session):
    # Also called for savepoints, whose transaction goes on.
    found = _thread.open.get(id(session))
    if found is not None and not session.in_nested_transaction():
        found.committed = True


def _ended(session, transaction):
    if transaction.parent is not None:
        return
    found = _thread.open.pop(id(session), None)
    if found is not None:
        found.end()
