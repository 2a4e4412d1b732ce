# SPDX-License-Identifier: Apache-2.0
"""Connections to a database server, which are kept in a pool.

oslo.db has each connection that is taken out of the pool asked whether the
server is still there, which costs as much as a short statement, and a change
takes a dozen. One that has answered a moment ago is not asked again: who
takes it meets a server that went away since as a transaction does that is
under way.
"""

import time
from typing import Any
import weakref

# Seconds for which an answer holds.
ASKED_S = 1.0


def prepare(engine: Any) -> None:
    """Set up an engine's connections."""
    dialect = engine.dialect
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
