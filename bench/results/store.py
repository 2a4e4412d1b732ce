# SPDX-License-Identifier: Apache-2.0
"""Stores runs in a SQLite file; finished runs are never changed.

A run becomes visible when it is finished. Runs whose process died before that
are removed when the next one begins.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import datetime
import functools
import json
import pathlib
import sqlite3

import sqlalchemy as sa

from bench import errors
from bench.results import document
from bench.results import model
from bench.results import owner
from bench.results import schema

DEFAULT = pathlib.Path(__file__).parents[2] / 'build/bench/results.sqlite'

# Transactions take milliseconds; after this long, one must be stuck.
BUSY_TIMEOUT_S = 30

_RUNS, _CASES, _VERSUS = schema.RUNS, schema.CASES, schema.VERSUS


class Store:
    """A store, which several processes may use and record to concurrently.

    :raises BenchError: the file is no store, or of a newer version.
    """

    def __init__(self, path: pathlib.Path = DEFAULT):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # Transactions are begun by _begin(), not by sqlite3.
        self._engine = sa.create_engine(
            f'sqlite:///{path.absolute()}', poolclass=sa.NullPool,
            connect_args={'timeout': BUSY_TIMEOUT_S, 'isolation_level': None},
            json_serializer=functools.partial(json.dumps, allow_nan=False))
        sa.event.listen(self._engine, 'connect', _on_connect)
        sa.event.listen(self._engine, 'begin', _begin)
        self._writer = self._engine.execution_options(begin='IMMEDIATE')
        with self._write() as connection:
            schema.prepare(connection, path)

    def begin(self, run: model.Run) -> None:
        """Start to record a run, and set its id.

        Removes unfinished runs of dead processes.
        """
        if run.cases or run.versus:
            raise errors.BenchError('a run begins without cases: they are '
                                    'added as they come')
        if run.started.tzinfo is None:
            raise errors.BenchError('the start of a run needs a time zone')
        process = owner.current()
        with self._write() as connection:
            _remove_abandoned(connection)
            run.id = _insert_run(
                connection, run, owner_boot=process.boot,
                owner_pid=process.pid, owner_started=process.started)

    def add(self, run: model.Run, case: model.Case) -> None:
        """Record a case of a run that has begun, and append it to the run.

        :raises BenchError: the case exists already or is malformed.
        """
        made = document.of_case(case)
        with self._write() as connection:
            _unfinished(connection, run)
            if any((case.software, case.name) == (other.software, other.name)
                   for other in run.cases):
                raise errors.BenchError(f'case {case.name} of {case.software} '
                                        f'is there already')
            _insert_case(connection, run.id, made)
        run.cases.append(case)

    def finish(self, run: model.Run) -> None:
        """Record run.versus and the fingerprint, and make the run visible.

        :raises BenchError: it has no cases.
        """
        made = document.of_run(run)
        with self._write() as connection:
            _unfinished(connection, run)
            _complete(connection, run.id, made)

    @contextlib.contextmanager
    def recording(self, run: model.Run) -> Iterator[model.Run]:
        """Call begin(), and finish() at the end or discard() on failure."""
        self.begin(run)
        try:
            yield run
            self.finish(run)
        except BaseException:
            self.discard(run)
            raise

    def discard(self, run: model.Run) -> None:
        """Remove a run that is not finished."""
        with self._write() as connection:
            _unfinished(connection, run)
            _remove(connection, run.id)
        run.id = None

    def run(self, number: int) -> model.Run:
        """:raises BenchError: there is no such finished run."""
        runs = self._runs(_RUNS.c.id == number)
        if not runs:
            raise errors.BenchError(f'{self.path} has no run {number}; '
                                    f'"history" lists what there is')
        return runs[0]

    def runs(self, suite: str | None = None,
             commit: str | None = None) -> list[model.Run]:
        """Return finished runs by their start, oldest first.

        :param commit: a prefix of the commit.
        """
        conditions = []
        if suite is not None:
            conditions.append(_RUNS.c.suite == suite)
        if commit is not None:
            conditions.append(_RUNS.c.commit_id.startswith(commit,
                                                           autoescape=True))
        return self._runs(*conditions)

    def add_finished(self, runs: Iterable[model.Run]) -> list[model.Run]:
        """Add runs of another store: all of them, or none on an error.

        :returns: the runs that were new, with their new ids.
        """
        added = []
        with self._write() as connection:
            for run in runs:
                made = document.of_run(run)
                here = sa.select(_RUNS.c.id).where(
                    _RUNS.c.digest == document.digest(made))
                if connection.execute(here).first() is not None:
                    continue
                run.id = _insert_run(connection, run)
                for case in made['cases']:
                    _insert_case(connection, run.id, case)
                _complete(connection, run.id, made)
                added.append(run)
        return added

    def _runs(self, *conditions):
        finished = sa.select(_RUNS).where(
            _RUNS.c.finished.is_not(None), *conditions)
        with self._read() as connection:
            runs = [_run_of(connection, row)
                    for row in connection.execute(finished).all()]
        return sorted(runs, key=lambda run: (run.started, run.id))

    @contextlib.contextmanager
    def _write(self):
        with self._errors(), self._writer.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _read(self):
        with self._errors(), self._engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _errors(self):
        try:
            yield
        except sa.exc.StatementError as error:
            raise errors.BenchError(f'{self.path}: {error.orig}') from error


def existing(path: pathlib.Path | None) -> Store:
    """Open an existing store for reading; None: the default one.

    :raises BenchError: the file does not exist.
    """
    path = path or DEFAULT
    if not path.exists():
        raise errors.BenchError(f'{path}: there is no store of results; "run" '
                                'and "import" make one')
    return Store(path)


def _on_connect(connection: sqlite3.Connection, _record) -> None:
    connection.execute('PRAGMA foreign_keys = ON')


def _begin(connection):
    # IMMEDIATE waits for other writers here. Otherwise, a transaction that
    # writes after it has read might be refused.
    kind = connection.get_execution_options().get('begin', 'DEFERRED')
    connection.exec_driver_sql(f'BEGIN {kind}')


def _insert_run(connection, run, **values):
    return connection.execute(sa.insert(_RUNS).values(
        suite=run.suite, commit_id=run.commit,
        started=run.started.isoformat(), fingerprint=run.fingerprint,
        **values)).inserted_primary_key[0]


def _insert_case(connection, number, made):
    connection.execute(sa.insert(_CASES).values(
        run=number, software=made['software'], name=made['name'],
        document=made))


def _complete(connection, number, made):
    for versus in made['versus']:
        connection.execute(sa.insert(_VERSUS).values(run=number,
                                                     document=versus))
    now = datetime.datetime.now(datetime.timezone.utc)
    connection.execute(sa.update(_RUNS).where(_RUNS.c.id == number).values(
        finished=now.isoformat(), digest=document.digest(made),
        fingerprint=made['fingerprint']))


def _unfinished(connection, run):
    row = connection.execute(
        sa.select(_RUNS.c.finished).where(_RUNS.c.id == run.id)).first()
    if row is None:
        raise errors.BenchError('the run has not begun')
    if row.finished is not None:
        raise errors.BenchError(f'run {run.id} is finished: nothing is added '
                                f'to it')


def _remove_abandoned(connection):
    for row in connection.execute(
            sa.select(_RUNS).where(_RUNS.c.finished.is_(None))).all():
        if owner.Owner(row.owner_boot, row.owner_pid,
                       row.owner_started).is_dead():
            _remove(connection, row.id)


def _remove(connection, number):
    for table in _CASES, _VERSUS:
        connection.execute(sa.delete(table).where(table.c.run == number))
    connection.execute(sa.delete(_RUNS).where(_RUNS.c.id == number))


def _run_of(connection, row):
    def documents(table):
        return [record.document for record in connection.execute(
            sa.select(table.c.document).where(table.c.run == row.id)
            .order_by(table.c.id))]

    run = document.run_of({
        'suite': row.suite, 'commit': row.commit_id, 'started': row.started,
        'fingerprint': row.fingerprint, 'cases': documents(_CASES),
        'versus': documents(_VERSUS)})
    run.id = row.id
    return run
