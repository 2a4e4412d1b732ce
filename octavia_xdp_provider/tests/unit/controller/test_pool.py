# SPDX-License-Identifier: Apache-2.0
"""Statements that are left out between transactions on a connection."""

import sqlite3
import types
from unittest import mock

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import pool
from octavia_xdp_provider.tests.unit import base


class Connection:
    """A database driver's connection."""


class TestPing(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = self.enterContext(
            mock.patch.object(pool.time, 'monotonic', return_value=0.5))
        self.ask = mock.Mock(return_value=True)
        engine = types.SimpleNamespace(
            dialect=types.SimpleNamespace(
                do_ping=self.ask, do_begin=None, do_commit=None,
                do_rollback=None))
        pool.prepare(engine)
        self.ping = engine.dialect.do_ping

    def test_connection_is_pinged_at_intervals(self):
        first, other = Connection(), Connection()
        for _ in range(3):
            self.assertTrue(self.ping(first))
        self.ask.assert_called_once_with(first)
        self.assertTrue(self.ping(other))
        self.assertEqual(2, self.ask.call_count)
        self.clock.return_value += pool.ASKED_S
        self.assertTrue(self.ping(first))
        self.assertEqual(3, self.ask.call_count)

    def test_failed_ping_is_repeated(self):
        connection = Connection()
        self.ask.side_effect = ConnectionError
        for _ in range(2):
            self.assertRaises(ConnectionError, self.ping, connection)
        self.assertEqual(2, self.ask.call_count)


class Database(sqlite3.Connection):
    """Can be referred to weakly, as connections to servers can."""


class TestRollback(base.TestCase):
    """The engine's real pool over a real connection."""

    def setUp(self):
        super().setUp()
        self.engine = sa.create_engine('sqlite://', creator=lambda: (
            sqlite3.connect(':memory:', factory=Database)))
        self.addCleanup(self.engine.dispose)
        self.ends = []
        dialect = self.engine.dialect
        for name in ('commit', 'rollback'):
            self._record(dialect, name)
        pool.prepare(self.engine)
        with self.engine.connect() as connection:
            connection.execute(sa.text('CREATE TABLE t (x INTEGER)'))
            connection.commit()
        self.ends.clear()

    def _record(self, dialect, name):
        end = getattr(dialect, f'do_{name}')

        def ending(connection):
            self.ends.append(name)
            end(connection)
        setattr(dialect, f'do_{name}', ending)

    def rows(self):
        with self.engine.connect() as connection:
            return list(connection.execute(sa.text(
                'SELECT x FROM t')).scalars())

    def insert(self, connection):
        connection.execute(sa.text('INSERT INTO t VALUES (1)'))

    def test_committed_transaction_is_not_rolled_back(self):
        with self.engine.begin() as connection:
            self.insert(connection)
        self.assertEqual(['commit'], self.ends)
        self.assertEqual([1], self.rows())

    def test_read_transaction_is_rolled_back_once(self):
        self.rows()
        self.assertEqual(['rollback'], self.ends)

    def test_uncommitted_transaction_is_rolled_back(self):
        with self.engine.connect() as connection:
            self.insert(connection)
            connection.commit()
            self.insert(connection)
        self.assertEqual(['commit', 'rollback'], self.ends)
        self.assertEqual([1], self.rows())

    def test_failed_statement_is_rolled_back(self):
        with self.assertRaises(ZeroDivisionError), (
                self.engine.begin()) as connection:
            self.insert(connection)
            raise ZeroDivisionError
        self.assertEqual(['rollback'], self.ends)
        self.assertEqual([], self.rows())

    def test_failed_commit_is_rolled_back(self):
        dialect = self.engine.dialect
        commit = dialect.do_commit

        def fail(connection):
            raise ConnectionError
        # The server refuses the commit.
        self.engine.dialect.do_commit = fail
        with self.assertRaises(ConnectionError), (
                self.engine.begin()) as connection:
            self.insert(connection)
        dialect.do_commit = commit
        self.assertEqual(['rollback'], self.ends)
        self.assertEqual([], self.rows())
