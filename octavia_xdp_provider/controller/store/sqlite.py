# SPDX-License-Identifier: Apache-2.0
"""SQLite with several writers: threads of a controller, and processes.

A transaction that reads before it writes fails immediately if another one has
written meanwhile, however long the time-out is. So writers begin by waiting
for the write lock (BEGIN IMMEDIATE); with a write-ahead log readers and
writers do not block each other.
"""

import contextlib
import sqlite3
import time
from typing import Any

import sqlalchemy as sa

# Seconds that a writer waits for the others.
BUSY_TIMEOUT_S = 30
_AGAIN_S = 0.01

WRITES = 'octavia_xdp_writes'


def write_ahead(cursor: sqlite3.Cursor) -> None:
    """Switch to a write-ahead log.

    While another connection, as the last one, removes the log, SQLite fails
    at once, without waiting for the time-out.
    """
    end = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute('PRAGMA journal_mode = WAL')
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(_AGAIN_S)


def prepare(engine: Any) -> None:
    """Set up an engine's connections."""

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection: Any, record: Any) -> None:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(f'PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}')
            write_ahead(cursor)

    # oslo.db's own listener, which comes first, has begun a read transaction,
    # which is empty and holds no lock.
    @sa.event.listens_for(engine, 'begin')
    def _begin(connection: Any) -> None:
        if connection.get_execution_options().get(WRITES):
            connection.exec_driver_sql('COMMIT')
            connection.exec_driver_sql('BEGIN IMMEDIATE')
