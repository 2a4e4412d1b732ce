# SPDX-License-Identifier: Apache-2.0
"""Reduces the cost of the pool of connections to a database server.

The pool's work for each transaction costs as much as short statements, and a
change takes a dozen transactions:

* oslo.db pings the server whenever a connection is taken from the pool. Here a
  connection that answered a moment ago is not pinged again: if the server has
  failed since, the transaction fails as one under way would.
* SQLAlchemy rolls back each connection that is returned, even after a commit.
  Here that is omitted if no transaction has begun since.
"""

import time
from typing import Any
import weakref

# Seconds for which an answer to a ping is valid.
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
    """Omit the rollback of connections on which no transaction has begun since
    the last COMMIT or ROLLBACK. SQLAlchemy calls do_begin() at each begin."""
    begin, commit, roll_back = (dialect.do_begin, dialect.do_commit,
                                dialect.do_rollback)
    # Connections that are certainly outside of a transaction.
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
