# SPDX-License-Identifier: Apache-2.0
"""Flows in progress while members come, go, drain, and change weight."""

from lab.fabric import connections
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import shared

NUMBER = 80
PAIR = topology.MEMBERS[:2]


class TestChanges(shared.WebTestCase):

    OPTIONS = {'hosts': PAIR}

    def connected(self, number=NUMBER):
        return connections.Connections(
            self.lab, self.balancer.vip_address, number=number)

    def test_connections_keep_their_member_over_changes_of_the_pool(self):
        with self.connected() as held:
            begin = held.ask()
            self.assertEqual(set(PAIR), set(begin))
            third = self.add_member('member3')
            self.wait_enabled(self.balancer, 3)
            self.assertEqual(begin, held.ask())
            self.change_member('member1', weight=7)
            with self.connected() as later:
                between = later.ask()
                self.assertEqual({*PAIR, 'member3'}, set(between))
                self.add_member('member4')
                self.wait_enabled(self.balancer, 4)
                self.change_member('member1', weight=1)
                self.remove_member(third)
                self.wait_enabled(self.balancer, 3)
                self.assertEqual(begin, held.ask())
                for old, new in zip(between, later.ask(), strict=True):
                    if old != 'member3':
                        self.assertEqual(old, new)
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertEqual([], opened.faults())

    def test_member_of_weight_0_keeps_connections_and_gets_no_new_ones(self):
        with self.connected() as held:
            begin = held.ask()
            self.assertEqual(set(PAIR), set(begin))
            self.change_member('member2', weight=0)
            self.wait_enabled(self.balancer, 1)
            self.assertEqual(begin, held.ask())
            self.check_requests(100, ['member1'])
        self.wait_statuses(self.pool, {'member1': 'ONLINE',
                                       'member2': 'DRAINING'})
