# SPDX-License-Identifier: Apache-2.0
"""Pages of changes in notifications."""

from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import pages
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

HOST = 'node'


class TestPages(store_base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.store.nodes.register(HOST)
        self.store.load_balancers.create(base.document())
        self.pages = pages.Pages(self.changes)
        self.nodes = node_api.NodesEndpoint(
            self.store, lambda host, ids, held: None, lambda: None,
            self.pages.fetched)
        self.failing = None

    def changes(self, host, since):
        if self.failing:
            raise self.failing
        return self.store.deltas.changes(host, since)

    def fetch(self, since):
        return self.nodes.fetch({}, HOST, since, None)['as_of']

    def rename(self, name):
        return self.store.load_balancers.change('lb', lambda document: {
            **document, 'name': name})

    def test_page_has_the_changes_since_the_last_one(self):
        self.store.placements.place('lb', add=[HOST])
        known = self.fetch(0)
        generation = self.rename('one')
        since, page = self.pages.next(HOST)
        self.assertEqual((known, generation, [('lb', generation)]), (
            since, page['as_of'], [(entry['id'], entry['generation'])
                                   for entry in page['changed']]))
        self.store.placements.place('lb', remove=[HOST])
        since, page = self.pages.next(HOST)
        self.assertEqual((generation, [], ['lb']), (
            since, page['changed'], page['removed']))

    def test_useless_pages_are_not_sent(self):
        self.assertIsNone(self.pages.next(HOST), 'not known')
        self.store.placements.place('lb', add=[HOST])
        known = self.fetch(0)
        self.assertIsNone(self.pages.next(HOST), 'nothing new')
        self.fetch(known + 100)
        self.rename('other')
        self.assertIsNone(self.pages.next(HOST), 'a restored database')

    def test_node_fetches_if_the_page_cannot_be_read(self):
        self.fetch(0)
        self.rename('one')
        self.failing = ConnectionError('no database')
        self.assertIsNone(self.pages.next(HOST))
        self.failing = None
        self.assertIsNotNone(self.pages.next(HOST))
