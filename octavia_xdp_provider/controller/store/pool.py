# SPDX-License-Identifier: Apache-2.0
"""Connections to a database server, which are kept in a pool.

What the pool does for each transaction costs as much as short statements,
and a change takes a dozen transactions:

* oslo.db has each connection that is taken out asked whether the server is
  still there. One that has answered a moment ago is not asked again: who
  takes it meets a server that went away since as a transaction does that is
  under way.
* SQLAlchemy rolls each connection back that is returned, also where its
  transaction was committed. That is left out where none has begun since.
"""

import time
from typing import Any
import weakref

# Seconds for which an answer holds.
ASKED_S = 1.0


def prepare(engine: Any) -> None:
    """Set up an engine's connections."""
    _ask_seldom(engine.dialect)
    _roll_back_once(engine.dialect)


def _ask_seldom(dialect: Any) -> None:
    ask = dialect.do_ping
    asked: weakref.WeakKeyDictionary[Any, float] = (
        weakref.WeakKeyDictionary())

    def do_ping(connection: Any) -> bool:
        now = time.monotonic()
        if now - asked.get(connection, float('-inf')) < ASKED_S:
            return True
        is_there = bool(ask(connection))
        asked[connection] = now
        return is_there

    dialect.do_ping = do_ping


def _roll_back_once(dialect: Any) -> None:
    """Statements run in transactions, of which SQLAlchemy says here when
    they begin: connections on which none has begun since a COMMIT or a
    ROLLBACK have nothing to be rolled back."""
    begin, commit, roll_back = (dialect.do_begin, dialect.do_commit,
                                dialect.do_rollback)
    # Only those of which it is known for sure.
    ended: weakref.WeakSet[Any] = weakref.WeakSet()

    def do_begin(connection: Any) -> None:
        ended.discard(connection.dbapi_connection)
        begin(connection)

    def do_commit(connection: Any) -> None:
        commit(connection)
        ended.add(connection.dbapi_connection)

    def do_rollback(connection: Any) -> None:
        own = getattr(connection, 'dbapi_connection', connection)
        if own in ended:
            return
        roll_back(connection)
        ended.add(own)

    dialect.do_begin = do_begin
    dialect.do_commit = do_commit
    dialect.do_rollback = do_rollback
