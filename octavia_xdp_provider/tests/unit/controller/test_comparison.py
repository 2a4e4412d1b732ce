# SPDX-License-Identifier: Apache-2.0
"""A comparison keeps attributes that Octavia does not show."""

from unittest import mock

from octavia_xdp_provider.controller import comparison
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base


class TestAdoption(store_base.StoreTestCase):

    def test_zone_and_defaults_of_the_creation_are_kept(self):
        mine = base.document(availability_zone={'zone': 'east'}, flavor={
            'algorithms_served_by_hash': ['ROUND_ROBIN']})
        mine['pools']['pool']['lb_algorithm'] = 'ROUND_ROBIN'
        self.store.create(mine)
        theirs = base.document(name='new')
        theirs['pools']['pool']['lb_algorithm'] = 'ROUND_ROBIN'
        octavia = mock.Mock()
        octavia.tree.return_value = {}
        octavia.document.return_value = theirs
        comparison.Comparison(self.store, octavia).compare(
            self.store.load_balancer('lb'))
        stored = self.store.load_balancer('lb').document
        self.assertEqual('new', stored['name'])
        for name in ('flavor', 'availability_zone'):
            self.assertEqual(mine[name], stored[name])
