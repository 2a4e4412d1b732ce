# SPDX-License-Identifier: Apache-2.0
"""Transactions: what is tried again, and what SQLite needs."""

import sqlite3
from unittest import mock

from oslo_db import exception as db_exception
import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.controller.store import sqlite
from octavia_xdp_provider.tests.unit.controller import base as store_base


class TestRetries(store_base.StoreTestCase):

    def test_rejected_transaction_is_tried_again(self):
        turned_away = [
            db_exception.DBDeadlock(),
            db_exception.DBDuplicateEntry(),
            db_exception.DBError(Exception('database is locked')),
            db_exception.DBError(Exception(
                "(1020, 'Record has changed since last read')"))]

        @base.retried
        def function():
            if turned_away:
                raise turned_away.pop()
            return 'done'
        with mock.patch('time.sleep'):
            self.assertEqual('done', function())

    def test_other_errors_are_not_tried_again(self):
        function = mock.Mock(side_effect=db_exception.DBError(
            Exception('no such table')), __name__='function')
        self.assertRaises(db_exception.DBError, base.retried(function))
        self.assertEqual(1, function.call_count)


class TestSqlite(store_base.StoreTestCase):

    def test_log_that_is_just_removed_is_waited_for(self):
        """Then SQLite does not wait itself, whatever its time-out."""
        locked = sqlite3.OperationalError('database is locked')
        cursor = mock.Mock()
        cursor.execute.side_effect = [locked, locked, None]
        sqlite.write_ahead(cursor)
        self.assertEqual(3, cursor.execute.call_count)
        cursor.execute.side_effect = locked
        with mock.patch.object(sqlite, 'BUSY_TIMEOUT_S', 0):
            self.assertRaises(sqlite3.OperationalError, sqlite.write_ahead,
                              cursor)

    def test_readers_do_not_wait_for_writers(self):
        other = queries.Store(schema.context_manager(self.conf))
        with self.store.database.write() as session:
            session.execute(sa.update(models.Sequence).values(value=7))
            self.assertEqual([], other.load_balancers.select())
