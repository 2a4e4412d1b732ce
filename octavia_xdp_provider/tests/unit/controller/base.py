# SPDX-License-Identifier: Apache-2.0
"""A store on SQLite, and an Octavia that behaves as the real one does."""

import fixtures

from octavia_xdp_provider.controller import octavia
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.tests.unit import base


class StoreTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.load(f'[database]\nconnection = {self.database()}\n')
        manager = schema.context_manager(self.conf)
        schema.upgrade(manager)
        self.store = queries.Store(manager)

    def database(self):
        """URL of an empty database."""
        directory = self.useFixture(fixtures.TempDir()).path
        return f'sqlite:///{directory}/db.sqlite'


class FakeOctavia:
    """Holds committed documents and the statuses that were set.

    As the real one, it sets a status of a row that does not exist without
    an error, and deletes rows of DELETED objects.
    """

    def __init__(self):
        self.documents = {}
        self.statuses = {}
        self.messages = []
        self.statistics = {}
        self.available = True

    def document(self, load_balancer_id):
        self._check()
        return self.documents.get(load_balancer_id)

    def set_statuses(self, message):
        self._check()
        self.messages.append(message)
        for plural, entries in message.items():
            for entry in entries:
                self.statuses.setdefault(entry['id'], {}).update(
                    {name: value for name, value in entry.items()
                     if name != 'id'})
                if (plural == 'loadbalancers'
                        and entry.get('provisioning_status') == 'DELETED'):
                    self.documents.pop(entry['id'], None)

    def set_statistics(self, statistics):
        self._check()
        self.statistics.update(statistics)

    def _check(self):
        if not self.available:
            raise octavia.OctaviaUnavailable('not there')

    def provisioning(self, key):
        return self.statuses.get(key, {}).get('provisioning_status')

    def operating(self, key):
        return self.statuses.get(key, {}).get('operating_status')
