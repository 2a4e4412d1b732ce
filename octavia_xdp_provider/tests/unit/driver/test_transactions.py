# SPDX-License-Identifier: Apache-2.0
"""Tracking of SQLAlchemy's transactions in a WSGI server's threads."""

import gc
import threading

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.driver import transactions
from octavia_xdp_provider.tests.unit import base

ONE = sa.text('SELECT 1')


class TestTransactions(base.TestCase):

    def setUp(self):
        super().setUp()
        self.engine = sa.create_engine('sqlite://')
        self.addCleanup(self.engine.dispose)
        transactions.watch()
        transactions.watch()
        self.ends = []

    def session(self):
        session = orm.Session(self.engine)
        self.addCleanup(session.close)
        session.execute(ONE)
        return session

    def test_commit_is_reported_once(self):
        session = self.session()
        transactions.current().on_end(self.ends.append)
        session.flush()
        self.assertEqual([], self.ends)
        session.commit()
        session.execute(ONE)
        session.commit()
        self.assertEqual([True], self.ends)

    def test_rollback_is_reported(self):
        session = self.session()
        transactions.current().on_end(self.ends.append)
        session.rollback()
        self.assertEqual([False], self.ends)

    def test_closed_session_has_not_committed(self):
        session = self.session()
        transactions.current().on_end(self.ends.append)
        session.close()
        self.assertEqual([False], self.ends)

    def test_block_with_exception_has_not_committed(self):
        try:
            with orm.Session(self.engine) as session, session.begin():
                session.execute(ONE)
                transactions.current().on_end(self.ends.append)
                raise RuntimeError
        except RuntimeError:
            pass
        self.assertEqual([False], self.ends)

    def test_new_rows_are_known_by_their_table(self):
        base_class = orm.declarative_base()

        class Row(base_class):
            __tablename__ = 'rows'
            key = sa.Column(sa.Integer, primary_key=True)
        base_class.metadata.create_all(self.engine)
        session = self.session()
        row = Row()
        session.add(row)
        self.assertEqual({}, transactions.current().new_rows)
        session.flush()
        self.assertEqual({'rows': [row]}, transactions.current().new_rows)
        session.commit()
        session.delete(row)
        session.flush()
        self.assertEqual({}, transactions.current().new_rows)

    def test_savepoint_is_not_reported_as_end(self):
        session = self.session()
        transactions.current().on_end(self.ends.append)
        with session.begin_nested():
            session.execute(ONE)
        self.assertEqual([], self.ends)
        session.rollback()
        self.assertEqual([False], self.ends)

    def test_no_transaction_is_known_outside_of_one(self):
        self.assertIsNone(transactions.current())
        session = self.session()
        session.commit()
        self.assertIsNone(transactions.current())

    def test_two_open_transactions_are_ambiguous(self):
        first, second = self.session(), self.session()
        self.assertIsNone(transactions.current())
        second.commit()
        transactions.current().on_end(self.ends.append)
        first.commit()
        self.assertEqual([True], self.ends)

    def test_collected_session_is_forgotten(self):
        session = orm.Session(self.engine)
        session.execute(ONE)
        del session
        gc.collect()
        self.assertIsNone(transactions.current())
        session = self.session()
        transactions.current().on_end(self.ends.append)
        session.commit()
        self.assertEqual([True], self.ends)

    def test_other_threads_transactions_are_ignored(self):
        transaction = []
        self.session()
        thread = threading.Thread(
            target=lambda: transaction.append(transactions.current()))
        thread.start()
        thread.join()
        self.assertEqual([None], transaction)
