# SPDX-License-Identifier: Apache-2.0
"""Flows in progress while members come, go, drain, and change weight."""

from lab.fabric import client
from lab.fabric import connections
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import shared
from octavia_xdp_provider.tests.support import form

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


@form.in_long_form
class TestMembersByKind(base.LabTestCase):

    def test_backup_members_get_new_connections_only_without_others(self):
        balancer, _, pool, made = self.create_web(
            member_options={'member3': {'backup': True},
                            'member4': {'backup': True}}, enabled=2)
        url = self.url(balancer)
        self.assertEqual({'member1', 'member2'},
                         set(client.requests(self.lab, url, 100).count))
        for host in ('member1', 'member2'):
            self.sdk.update_member(made[host], pool, is_admin_state_up=False)
            self.wait_active(balancer)
        answers = client.requests(self.lab, url, 100)
        self.assertEqual([], answers.failures)
        self.assertEqual({'member3', 'member4'}, set(answers.count))
        with connections.Connections(
                self.lab, balancer.vip_address, number=20) as held:
            begin = held.ask()
            self.sdk.update_member(made['member1'], pool,
                                   is_admin_state_up=True)
            self.wait_active(balancer)
            self.wait('member1 takes over', lambda: set(client.requests(
                self.lab, url, 50).count) == {'member1'})
            self.assertEqual(begin, held.ask())

    def test_source_ip_sends_a_client_to_one_member(self):
        for options in ({'lb_algorithm': 'SOURCE_IP'},
                        {'session_persistence': {
                            'type': 'SOURCE_IP',
                            'persistence_timeout': 100,
                            'persistence_granularity': '255.255.255.0'}}):
            with self.subTest(options=options):
                balancer, *_ = self.create_web(
                    protocol='UDP', port=5353, monitor=None,
                    pool_options=options)
                answers = client.udp(
                    self.lab, balancer.vip_address, 5353, 50)
                self.assertEqual([], answers.failures)
                self.assertEqual(1, len(answers.count))
                self.delete_balancer(balancer)
