# SPDX-License-Identifier: Apache-2.0
"""Sessions of SQLAlchemy, as a WSGI server's threads use them."""

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

    def test_a_commit_is_reported_once(self):
        session = self.session()
        transactions.current().then(self.ends.append)
        session.flush()
        self.assertEqual([], self.ends)
        session.commit()
        session.execute(ONE)
        session.commit()
        self.assertEqual([True], self.ends)

    def test_a_rollback_is_reported_as_such(self):
        session = self.session()
        transactions.current().then(self.ends.append)
        session.rollback()
        self.assertEqual([False], self.ends)

    def test_a_session_that_is_closed_has_not_committed(self):
        session = self.session()
        transactions.current().then(self.ends.append)
        session.close()
        self.assertEqual([False], self.ends)

    def test_a_block_that_ends_with_an_exception_has_not_committed(self):
        try:
            with orm.Session(self.engine) as session, session.begin():
                session.execute(ONE)
                transactions.current().then(self.ends.append)
                raise RuntimeError
        except RuntimeError:
            pass
        self.assertEqual([False], self.ends)

    def test_tables_of_new_rows_are_known(self):
        base_class = orm.declarative_base()

        class Row(base_class):
            __tablename__ = 'rows'
            key = sa.Column(sa.Integer, primary_key=True)
        base_class.metadata.create_all(self.engine)
        session = self.session()
        row = Row()
        session.add(row)
        self.assertEqual(set(), transactions.current().made)
        session.flush()
        self.assertEqual({'rows'}, transactions.current().made)
        session.commit()
        session.delete(row)
        session.flush()
        self.assertEqual(set(), transactions.current().made)

    def test_a_savepoint_is_no_end(self):
        session = self.session()
        transactions.current().then(self.ends.append)
        with session.begin_nested():
            session.execute(ONE)
        self.assertEqual([], self.ends)
        session.rollback()
        self.assertEqual([False], self.ends)

    def test_without_a_transaction_there_is_none(self):
        self.assertIsNone(transactions.current())
        session = self.session()
        session.commit()
        self.assertIsNone(transactions.current())

    def test_of_two_none_is_the_callers(self):
        first, second = self.session(), self.session()
        self.assertIsNone(transactions.current())
        second.commit()
        transactions.current().then(self.ends.append)
        first.commit()
        self.assertEqual([True], self.ends)

    def test_one_that_nobody_has_any_more_is_forgotten(self):
        session = orm.Session(self.engine)
        session.execute(ONE)
        del session
        gc.collect()
        self.assertIsNone(transactions.current())
        session = self.session()
        transactions.current().then(self.ends.append)
        session.commit()
        self.assertEqual([True], self.ends)

    def test_those_of_other_threads_are_not_seen(self):
        found = []
        self.session()
        thread = threading.Thread(
            target=lambda: found.append(transactions.current()))
        thread.start()
        thread.join()
        self.assertEqual([None], found)
