# SPDX-License-Identifier: Apache-2.0
"""A comparison with Octavia ends after a change has come: it says nothing.

What Octavia showed as PENDING then may be the change that came since, which
no node has done.
"""

from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

PENDING = {('loadbalancer', 'lb'), ('pool', 'pool')}
DYING = {('member', 'm9')}


class TestStaleComparison(store_base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.generation = self.store.create(base.document())
        self.store.note_sent('lb', self.generation, statuses={}, active=True,
                             deleted=True)

    def compared(self):
        """Return what is due after a comparison that began earlier."""
        self.store.note_compared('lb', self.generation, 'then', PENDING,
                                 DYING)
        row = self.store.load_balancer('lb')
        return {item[:2] for item in row.unconfirmed}, {
            item[:2] for item in row.removed}

    def test_pending_objects_are_sent(self):
        self.assertEqual((PENDING, DYING), self.compared())

    def test_pending_change_is_not_made_active(self):
        self.store.request(
            {'object': 'member', 'action': 'update', 'object_id': 'm1',
             'pool_id': 'pool', 'fields': {'weight': 2}}, 'request')
        self.assertEqual((set(), set()), self.compared())

    def test_later_change_is_not_made_active(self):
        self.store.change('lb', lambda document: document)
        self.assertEqual((set(), set()), self.compared())
