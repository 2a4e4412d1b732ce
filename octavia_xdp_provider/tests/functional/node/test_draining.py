# SPDX-License-Identifier: Apache-2.0
"""What a router has of a VIP that is drained, with ExaBGP and BIRD.

The router does as RFC 8326 says: routes with the community are a last resort.
"""

import ipaddress
import re

from oslo_config import fixture as config_fixture

from octavia_xdp_provider.agent import announcing
from octavia_xdp_provider.agent import files
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.config import options
from octavia_xdp_provider.tests.functional.support import bgp

VIPS = ('203.0.113.10', '203.0.113.11')
ABLE = {vip: [frozenset({4})] for vip in VIPS}
READY = frozenset((4,))
OBEYS = bgp.BIRD.replace('import all;', '''import filter {
        if (65535, 0) ~ bgp_community then bgp_local_pref = 0;
        accept;
    };''')


class TestDraining(bgp.BgpCase):

    def setUp(self):
        super().setUp()
        self.start_bird(OBEYS)
        self.write_exabgp_config()
        conf = options.load(config_files=[])
        self.conf = self.useFixture(config_fixture.Config(conf))
        self.announcements = announcements.Announcements(
            self.directory, [ipaddress.ip_network(bgp.NETWORK)])
        self.announcing = announcing.Announcing(
            self.announcements, files.FileErrors(), conf)
        self.announcing.announce(ABLE, READY)
        self.start_exabgp()
        self.wait('routes', lambda: self.routes().keys() == {
            f'{vip}/32' for vip in VIPS})

    def preference(self, vip):
        return self.routes_with_attributes()[f'{vip}/32'].local_preference

    def withdrawals(self):
        """Routes that the router was made to forget."""
        shown = self.birdc('show protocols all node').stdout
        return int(re.search(r'Import withdraws:\s+(\d+)', shown)[1])

    def test_a_drained_vip_is_a_last_resort_and_never_without_a_route(self):
        before = self.withdrawals()
        self.announcing.announce(ABLE, READY, frozenset(VIPS[:1]))
        self.wait('last resort', lambda: self.preference(VIPS[0]) == 0)
        self.assertIsNone(self.preference(VIPS[1]))
        self.announcing.announce(ABLE, READY)
        self.wait('usual route', lambda: self.preference(VIPS[0]) is None)
        self.assertEqual(before, self.withdrawals())

    def test_other_attributes_that_the_operator_names_are_sent(self):
        self.conf.config(group='bgp', drain_communities=['65000:9'],
                         drain_med=1000, drain_as_path_prepend=2)
        self.announcing.announce(ABLE, READY, frozenset(VIPS[:1]))

        def sent():
            route = self.routes_with_attributes()[f'{VIPS[0]}/32']
            return (route.communities, route.med, route.as_path_prepend)
        self.wait('attributes', lambda: sent() == (
            ('65000:9',), 1000, 2))

    def test_withdrawal_ends_it(self):
        self.announcing.announce(ABLE, READY, frozenset(VIPS[:1]))
        self.wait('last resort', lambda: self.preference(VIPS[0]) == 0)
        self.conf.config(group='agent', withdraw_grace=0)
        self.assertEqual(set(), self.announcing.withdraw(set(VIPS[1:])))
        self.wait('one route', lambda: self.routes().keys() == {
            f'{VIPS[1]}/32'})
