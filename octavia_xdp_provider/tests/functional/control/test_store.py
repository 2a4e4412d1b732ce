# SPDX-License-Identifier: Apache-2.0
"""The store's own tests once more, on the servers that operators use."""

import threading
from unittest import mock

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import reports
from octavia_xdp_provider.tests.functional.support import control
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller.cases import bundles
from octavia_xdp_provider.tests.unit.controller.cases import leases
from octavia_xdp_provider.tests.unit.controller.cases import node_reports
from octavia_xdp_provider.tests.unit.controller.cases import requests
from octavia_xdp_provider.tests.unit.controller.cases import roles
from octavia_xdp_provider.tests.unit.controller.cases import several_vips
from octavia_xdp_provider.tests.unit.controller.cases import store
from octavia_xdp_provider.tests.unit.controller.cases import transactions
from octavia_xdp_provider.tests.unit.controller.cases import ways
from octavia_xdp_provider.tests.unit.controller.cases import zones


class Server:
    """A database of the class on a server; each test finds it empty.

    Another one that a test asks for is its own, without any tables.
    """

    NAME: str
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
    NAME, VARIABLE = 'MariaDB', control.DATABASE


@form.in_long_form
class LongMariaDB(MariaDB):
    """Tests that pass with SQLite as well."""


@form.in_long_form
class PostgreSQL(Server):
    NAME, VARIABLE = 'PostgreSQL', control.POSTGRESQL


class TestSchemaOnMariaDB(store.Schema):

    def database(self):
        return control.new_database(self)


@form.in_long_form
class TestSchemaOnPostgreSQL(store.Schema):

    def database(self):
        return control.new_database(self, control.POSTGRESQL)


class Races(store_base.StoreTestCase):
    """Two transactions that conflict, as SQLite's never do."""

    def test_a_placement_that_is_put_back_stays(self):
        """A node confirms a removal which is over."""
        self.store.nodes.register('a')
        self.store.load_balancers.create(unit.document())
        self.store.placements.place('lb', ['a'])
        self.store.placements.place('lb', remove=['a'])
        confirm = reports._confirm_removed

        def put_back_before(*arguments):
            thread = threading.Thread(target=self.store.placements.place,
                                      args=('lb', ['a']))
            thread.start()
            thread.join()
            confirm(*arguments)
        with mock.patch.object(reports, '_confirm_removed',
                               put_back_before):
            self.report_wanted('a')
        placement, = self.store.placements.select()
        self.assertIsNone(placement.removed_generation)


def _on(server, *cases):
    """Each class of tests once, on a server."""
    for case in cases:
        name = f'Test{case.__name__}On{server.NAME}'
        globals()[name] = type(case)(
            name, (server, case), {'__module__': __name__,
                                   '__doc__': case.__doc__})


# Tests that depend on a server's clock, locks and isolation.
_SHORT = (transactions.Writers, transactions.Marks, leases.Leases, Races)
_LONG = (store.Store, requests.Requests, node_reports.NodeReports, ways.Order,
         ways.Migration, roles.Roles, zones.Zones, bundles.Bundles,
         bundles.Tickets)
_on(MariaDB, *_SHORT)
_on(LongMariaDB, *_LONG, several_vips.BothFamilies)
_on(PostgreSQL, *_SHORT, *_LONG)
# There is no server below it.
del Races
