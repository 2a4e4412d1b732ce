# SPDX-License-Identifier: Apache-2.0
"""SQLite with several writers: threads of a controller, and processes.

A transaction that reads before it writes fails immediately if another one has
written meanwhile, however long the time-out is. So writers begin by waiting
for the write lock (BEGIN IMMEDIATE); with a write-ahead log readers and
writers do not block each other.
"""

import contextlib
from typing import Any

import sqlalchemy as sa

# Seconds that a writer waits for the others.
BUSY_TIMEOUT_S = 30

WRITES = 'octavia_xdp_writes'


def prepare(engine: Any) -> None:
    """Set up an engine's connections."""

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection: Any, record: Any) -> None:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(f'PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}')
            cursor.execute('PRAGMA journal_mode = WAL')

    # oslo.db's own listener, which comes first, has begun a read transaction,
    # which is empty and holds no lock.
    @sa.event.listens_for(engine, 'begin')
    def _begin(connection: Any) -> None:
        if connection.get_execution_options().get(WRITES):
            connection.exec_driver_sql('COMMIT')
            connection.exec_driver_sql('BEGIN IMMEDIATE')
