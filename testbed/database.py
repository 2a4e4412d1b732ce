# SPDX-License-Identifier: Apache-2.0
"""The database of leases: one SQLite file.

Each change is one transaction that holds SQLite's write lock from its first
statement on (BEGIN IMMEDIATE), so that what it reads is valid until it ends; a
killed process leaves either all of it or nothing. A key of a table enforces
that a machine has at most one holder, and a trigger that the log is only
appended to; neither depends on the program.

Times are in UNIX seconds.
"""

import pathlib

import sqlalchemy
from sqlalchemy import event

from bench import errors

FILE = 'leases.sqlite'
# Seconds; a change takes milliseconds, but a disk may stall.
BUSY_S = 60
VERSION = 1

METADATA = sqlalchemy.MetaData()

LOG = sqlalchemy.Table(
    'log', METADATA,
    sqlalchemy.Column('id', sqlalchemy.Integer, primary_key=True),
    sqlalchemy.Column('at', sqlalchemy.Integer, nullable=False),
    sqlalchemy.Column('who', sqlalchemy.Text, nullable=False),
    sqlalchemy.Column('action', sqlalchemy.Text, nullable=False),
    sqlalchemy.Column('lease', sqlalchemy.Integer),
    sqlalchemy.Column('text', sqlalchemy.Text, nullable=False),
    # Numbers are never reused.
    sqlite_autoincrement=True)

# begun, ended: the log entries of these events.
LEASES = sqlalchemy.Table(
    'leases', METADATA,
    sqlalchemy.Column('id', sqlalchemy.Integer, primary_key=True),
    sqlalchemy.Column('owner', sqlalchemy.Text, nullable=False),
    sqlalchemy.Column('purpose', sqlalchemy.Text, nullable=False),
    sqlalchemy.Column('kernel', sqlalchemy.Text),
    sqlalchemy.Column('begins', sqlalchemy.Integer, nullable=False),
    sqlalchemy.Column('expires', sqlalchemy.Integer, nullable=False),
    sqlalchemy.Column('begun', sqlalchemy.ForeignKey('log.id')),
    sqlalchemy.Column('ended', sqlalchemy.ForeignKey('log.id')),
    sqlite_autoincrement=True)

# The machines of each lease, including ended ones.
LEASED = sqlalchemy.Table(
    'leased', METADATA,
    sqlalchemy.Column('lease', sqlalchemy.ForeignKey('leases.id'),
                      primary_key=True),
    sqlalchemy.Column('machine', sqlalchemy.Text, primary_key=True))

# The present lease of each machine.
HELD = sqlalchemy.Table(
    'held', METADATA,
    sqlalchemy.Column('machine', sqlalchemy.Text, primary_key=True),
    sqlalchemy.Column('lease', sqlalchemy.ForeignKey('leases.id'),
                      nullable=False))

# Runs of "sync": running, done or failed.
RUNS = sqlalchemy.Table(
    'runs', METADATA,
    sqlalchemy.Column('id', sqlalchemy.Integer, primary_key=True),
    sqlalchemy.Column('who', sqlalchemy.Text, nullable=False),
    sqlalchemy.Column('started', sqlalchemy.Integer, nullable=False),
    sqlalchemy.Column('ended', sqlalchemy.Integer),
    sqlalchemy.Column('state', sqlalchemy.Text, nullable=False),
    sqlalchemy.Column('text', sqlalchemy.Text, nullable=False),
    sqlite_autoincrement=True)

_APPEND_ONLY = tuple(sqlalchemy.text(
    f'CREATE TRIGGER IF NOT EXISTS log_no_{action} BEFORE {action} ON log '
    "BEGIN SELECT RAISE(ABORT, 'the log is only appended to'); END")
    for action in ('update', 'delete'))


def open_file(path: pathlib.Path) -> sqlalchemy.Engine:
    """Open a database; create it if it does not exist.

    :raises errors.BenchError: it cannot be opened, or is of another version.
    """
    engine = sqlalchemy.create_engine(
        f'sqlite:///{path}', connect_args={'timeout': BUSY_S},
        poolclass=sqlalchemy.NullPool)
    event.listen(engine, 'connect', _settings)
    event.listen(engine, 'begin', _begin)
    try:
        with engine.begin() as connection:
            version = connection.exec_driver_sql('PRAGMA user_version'
                                                 ).scalar_one()
            if version == 0:
                _create(connection)
            elif version != VERSION:
                raise errors.BenchError(
                    f'{path}: a database of version {version}; this program '
                    f'knows version {VERSION}: use the program that made it')
    except sqlalchemy.exc.DatabaseError as error:
        raise errors.BenchError(f'{path}: {error.orig}') from error
    return engine


def _create(connection):
    METADATA.create_all(connection)
    for trigger in _APPEND_ONLY:
        connection.execute(trigger)
    connection.exec_driver_sql(f'PRAGMA user_version = {VERSION}')


def _settings(connection, _record):
    # Otherwise the library begins transactions itself, and not IMMEDIATE ones.
    connection.isolation_level = None
    connection.execute('PRAGMA foreign_keys = ON')
    connection.execute('PRAGMA synchronous = FULL')


def _begin(connection):
    connection.exec_driver_sql('BEGIN IMMEDIATE')


def append(connection: sqlalchemy.Connection, at: int, who: str, action: str,
           lease: int | None, text: str) -> int:
    """Add an entry to the log; return its number."""
    key = connection.execute(LOG.insert().values(
        at=at, who=who, action=action, lease=lease, text=text,
    )).inserted_primary_key
    return int(key[0])
