# SPDX-License-Identifier: Apache-2.0
"""The store's own tests once more, on the servers that operators use."""

import threading
from unittest import mock

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import reports
from octavia_xdp_provider.tests.functional.support import control
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import test_leases
from octavia_xdp_provider.tests.unit.controller import test_node_api
from octavia_xdp_provider.tests.unit.controller import test_requests
from octavia_xdp_provider.tests.unit.controller import test_store
from octavia_xdp_provider.tests.unit.controller import test_store_base
from octavia_xdp_provider.tests.unit.controller import test_zero_touch
from octavia_xdp_provider.tests.unit.controller import test_zero_touch_vips


class Server:
    """A database of the class on a server; each test finds it empty.

    Another one that a test asks for is its own, without any tables.
    """

    VARIABLE: str
    _url = None
    _is_mine = False

    def database(self):
        cls = type(self)
        if self._is_mine:
            return control.new_database(self, self.VARIABLE)
        self._is_mine = True
        if cls._url is None:
            cls._url = control.new_database(self, self.VARIABLE,
                                            self.addClassCleanup)
            return cls._url
        engine = sa.create_engine(cls._url)
        with engine.begin() as connection:
            for table in reversed(models.Base.metadata.sorted_tables):
                if table.name != models.Sequence.__tablename__:
                    connection.execute(table.delete())
            connection.execute(sa.update(models.Sequence).values(value=0))
        engine.dispose()
        return cls._url


class MariaDB(Server):
    VARIABLE = control.DATABASE


class PostgreSQL(Server):
    VARIABLE = control.POSTGRESQL


class TestSchemaOnMariaDB(test_store.TestSchema):

    def database(self):
        return control.new_database(self)


class TestSchemaOnPostgreSQL(test_store.TestSchema):

    def database(self):
        return control.new_database(self, control.POSTGRESQL)


class TestRaces(store_base.StoreTestCase):
    """Of two transactions that meet, as SQLite's never do."""

    def test_a_placement_that_is_put_back_stays(self):
        """A node confirms a removal which is over."""
        self.store.register_node('a')
        self.store.create(unit.document())
        self.store.place('lb', ['a'])
        self.store.place('lb', remove=['a'])
        confirm = reports.Reports._confirm_removed

        def put_back_before(*arguments):
            thread = threading.Thread(target=self.store.place,
                                      args=('lb', ['a']))
            thread.start()
            thread.join()
            confirm(*arguments)
        with mock.patch.object(reports.Reports, '_confirm_removed',
                               staticmethod(put_back_before)):
            self.store.report('a', self.store.changes('a', 0)['as_of'], {})
        placement, = self.store.placements()
        self.assertIsNone(placement.removed_generation)


def _on_servers(*cases):
    """Each class of tests once for each server."""
    for case in cases:
        for server in (MariaDB, PostgreSQL):
            name = f'{case.__name__}On{server.__name__}'
            globals()[name] = type(case)(
                name, (server, case), {'__module__': __name__,
                                       '__doc__': case.__doc__})


_on_servers(
    test_store.TestStore, test_store_base.TestWriters,
    test_store_base.TestMarks, test_leases.TestLeases,
    test_requests.TestRequests, test_node_api.TestReports, TestRaces)
# There is no server below it.
del TestRaces


class TestWaysOnMariaDB(MariaDB, test_zero_touch.TestOrder):
    """Keys and documents of hypervisors."""


class TestWaysOnPostgreSQL(PostgreSQL, test_zero_touch.TestOrder):
    """Keys and documents of hypervisors."""


class TestSeveralVipsOnMariaDB(
        MariaDB, test_zero_touch_vips.TestBothFamilies):
    """A key for each VIP."""


class TestMigrationOnMariaDB(MariaDB, test_zero_touch.TestMigration):
    """A VM that moves."""


class TestMigrationOnPostgreSQL(PostgreSQL, test_zero_touch.TestMigration):
    """A VM that moves."""
