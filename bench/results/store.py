# SPDX-License-Identifier: Apache-2.0
"""Stores runs in a SQLite file, each as a whole; they are never changed."""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import hashlib
import json
import pathlib
import sqlite3

from bench import errors
from bench.results import document
from bench.results import model

DEFAULT = pathlib.Path(__file__).parents[2] / 'build/bench/results.sqlite'

# Transactions take milliseconds; after this long, one must be stuck.
BUSY_TIMEOUT_S = 30
# "oxpb", to recognize SQLite files of other programs.
APPLICATION = 0x6F787062
VERSION = 2

_TABLE = '''
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, suite TEXT NOT NULL, commit_id TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE, document TEXT NOT NULL)'''
_TRIGGER = '''
CREATE TRIGGER runs_{event} BEFORE {event} ON runs
BEGIN SELECT RAISE(ABORT, 'a stored run does not change'); END'''


class Store:
    """A store, which several processes may read and add to concurrently.

    :raises BenchError: the file is no store, or of another version.
    """

    def __init__(self, path: pathlib.Path = DEFAULT):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._transaction() as connection:
            self._prepare(connection)

    def add(self, runs: Iterable[model.Run]) -> list[model.Run]:
        """Add runs: all of them, or none on an error.

        :returns: the runs that were new, with their new ids.
        :raises BenchError: a run is malformed or has no cases.
        """
        added = []
        with self._transaction() as connection:
            for run in runs:
                text = json.dumps(document.of_run(run), sort_keys=True)
                digest = hashlib.sha256(text.encode()).hexdigest()
                done = connection.execute(
                    'INSERT INTO runs (suite, commit_id, digest, document) '
                    'VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
                    (run.suite, run.commit, digest, text))
                if done.rowcount:
                    run.id = done.lastrowid
                    added.append(run)
        return added

    def run(self, number: int) -> model.Run:
        """:raises BenchError: there is no such run."""
        runs = self._runs('id = ?', number)
        if not runs:
            raise errors.BenchError(f'{self.path} has no run {number}; '
                                    f'"history" lists what there is')
        return runs[0]

    def runs(self, suite: str | None = None,
             commit: str | None = None) -> list[model.Run]:
        """Return runs by their start, oldest first.

        :param commit: a prefix of the commit.
        """
        return self._runs('(?1 IS NULL OR suite = ?1) AND '
                          'substr(commit_id, 1, length(?2)) = ?2',
                          suite, commit or '')

    def _runs(self, condition, *values):
        with self._transaction() as connection:
            rows = connection.execute(
                f'SELECT id, document FROM runs WHERE {condition}',  # noqa: S608
                values).fetchall()
        runs = []
        for number, text in rows:
            runs.append(document.run_of(json.loads(text)))
            runs[-1].id = number
        return sorted(runs, key=lambda run: (run.started, run.id))

    def _prepare(self, connection):
        """Create the table, or check that it is of this version."""
        application, version = (
            connection.execute(f'PRAGMA {name}').fetchone()[0]
            for name in ('application_id', 'user_version'))
        if (application, version) == (APPLICATION, VERSION):
            return
        if application == APPLICATION:
            raise errors.BenchError(
                f'{self.path} has version {version} of the store, this is for '
                f'{VERSION}: "export" it with a checkout of its time and '
                '"import" that, or name another file')
        if connection.execute('SELECT 1 FROM sqlite_schema').fetchone():
            raise errors.BenchError(
                f'{self.path} is a database, but not a store of benchmarks: '
                'name another file')
        connection.execute(_TABLE)
        for event in 'UPDATE', 'DELETE':
            connection.execute(_TRIGGER.format(event=event))
        connection.execute(f'PRAGMA application_id = {APPLICATION}')
        connection.execute(f'PRAGMA user_version = {VERSION}')

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(
                    self.path, BUSY_TIMEOUT_S,
                    isolation_level=None)) as connection:
                # Waits for other writers here. Otherwise, a transaction that
                # writes after it has read might be refused.
                connection.execute('BEGIN IMMEDIATE')
                yield connection
                connection.execute('COMMIT')
        except sqlite3.Error as error:
            raise errors.BenchError(f'{self.path}: {error}') from error


def existing(path: pathlib.Path | None) -> Store:
    """Open an existing store for reading; None: the default one.

    :raises BenchError: the file does not exist.
    """
    path = path or DEFAULT
    if not path.exists():
        raise errors.BenchError(f'{path}: there is no store of results; "run" '
                                'and "import" make one')
    return Store(path)
