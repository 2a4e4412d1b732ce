# SPDX-License-Identifier: Apache-2.0
"""Tables of the store, and triggers that protect finished runs."""

import sqlalchemy as sa

from bench import errors

# "oxpb", to recognize SQLite files of other programs.
APPLICATION = 0x6F787062
VERSION = 1

_METADATA = sa.MetaData()

# A run without `finished` is being recorded by the process with this id and
# start time (clock ticks since boot, proc_pid_stat(5)), in this boot.
RUNS = sa.Table(
    'runs', _METADATA,
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('suite', sa.Text, nullable=False),
    sa.Column('commit_id', sa.Text, nullable=False, index=True),
    sa.Column('started', sa.Text, nullable=False),
    sa.Column('fingerprint', sa.JSON, nullable=False),
    sa.Column('finished', sa.Text),
    sa.Column('digest', sa.Text, index=True),
    sa.Column('owner_boot', sa.Text),
    sa.Column('owner_pid', sa.Integer),
    sa.Column('owner_started', sa.Integer),
    # Numbers of runs are never reused.
    sqlite_autoincrement=True)

CASES = sa.Table(
    'cases', _METADATA,
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('run', sa.ForeignKey('runs.id'), nullable=False),
    sa.Column('software', sa.Text, nullable=False),
    sa.Column('name', sa.Text, nullable=False, index=True),
    sa.Column('document', sa.JSON, nullable=False),
    sa.UniqueConstraint('run', 'software', 'name'))

VERSUS = sa.Table(
    'versus', _METADATA,
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('run', sa.ForeignKey('runs.id'), nullable=False),
    sa.Column('document', sa.JSON, nullable=False))

_REFUSE = "SELECT RAISE(ABORT, 'a finished run does not change')"
_FINISHED = '(SELECT finished FROM runs WHERE id = {}.run) IS NOT NULL'


def _triggers():
    for event in 'UPDATE', 'DELETE':
        yield (f'CREATE TRIGGER runs_{event} BEFORE {event} ON runs '
               f'WHEN OLD.finished IS NOT NULL BEGIN {_REFUSE}; END')
    for table in 'cases', 'versus':
        for event, row in (('UPDATE', 'OLD'), ('DELETE', 'OLD'),
                           ('INSERT', 'NEW')):
            yield (f'CREATE TRIGGER {table}_{event} BEFORE {event} ON {table} '
                   f'WHEN {_FINISHED.format(row)} BEGIN {_REFUSE}; END')
        # Moves into a finished run.
        yield (f'CREATE TRIGGER {table}_move BEFORE UPDATE OF run ON {table} '
               f'WHEN {_FINISHED.format("NEW")} BEGIN {_REFUSE}; END')


def prepare(connection: sa.Connection, path) -> None:
    """Create the tables, or check that they are of this version.

    To be called in a transaction that may write.

    :raises BenchError: the file is of another program, or a newer version.
    """
    application = _pragma(connection, 'application_id')
    version = _pragma(connection, 'user_version')
    if application == APPLICATION and version == VERSION:
        return
    if application == APPLICATION and version > VERSION:
        raise errors.BenchError(
            f'{path} has version {version} of the store, this is for up to '
            f'{VERSION}: use a newer checkout, or another file')
    if application or version or sa.inspect(connection).get_table_names():
        raise errors.BenchError(
            f'{path} is a database, but not a store of benchmarks: name '
            f'another file')
    _METADATA.create_all(connection)
    for trigger in _triggers():
        connection.exec_driver_sql(trigger)
    connection.exec_driver_sql(f'PRAGMA application_id = {APPLICATION}')
    connection.exec_driver_sql(f'PRAGMA user_version = {VERSION}')


def _pragma(connection, name):
    return connection.exec_driver_sql(f'PRAGMA {name}').scalar_one()
