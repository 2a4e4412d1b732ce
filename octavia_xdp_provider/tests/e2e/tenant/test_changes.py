# SPDX-License-Identifier: Apache-2.0
"""Flows in progress while members come, go, drain, and change weight."""

from lab.fabric import client
from lab.fabric import connections
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base

NUMBER = 120


class TestChanges(base.LabTestCase):

    def test_connections_keep_their_member_over_changes_of_the_pool(self):
        balancer, _, pool, made = self.create_web(hosts=topology.MEMBERS[:2])
        with connections.Connections(
                self.lab, balancer.vip_address, number=NUMBER) as held:
            begin = held.ask()
            self.assertEqual({'member1', 'member2'}, set(begin))
            made['member3'] = self.create_member(pool, 'member3')
            self.wait_active(balancer)
            self.wait_enabled(balancer, 3)
            self.assertEqual(begin, held.ask())
            self.sdk.update_member(made['member1'], pool, weight=7)
            self.wait_active(balancer)
            with connections.Connections(
                    self.lab, balancer.vip_address, number=NUMBER) as later:
                between = later.ask()
                self.assertEqual(set(topology.MEMBERS[:3]), set(between))
                self.create_member(pool, 'member4')
                self.wait_active(balancer)
                self.wait_enabled(balancer, 4)
                self.sdk.update_member(made['member1'], pool, weight=1)
                self.wait_active(balancer)
                self.sdk.delete_member(made['member3'], pool)
                self.wait_active(balancer)
                self.wait_enabled(balancer, 3)
                self.assertEqual(begin, held.ask())
                for old, new in zip(between, later.ask(), strict=True):
                    if old != 'member3':
                        self.assertEqual(old, new)
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertEqual([], opened.faults())

    def test_member_of_weight_0_keeps_connections_and_gets_no_new_ones(self):
        balancer, _, pool, made = self.create_web()
        with connections.Connections(
                self.lab, balancer.vip_address, number=NUMBER) as held:
            begin = held.ask()
            self.assertEqual(set(topology.MEMBERS), set(begin))
            self.sdk.update_member(made['member2'], pool, weight=0)
            self.wait_active(balancer)
            self.wait_enabled(balancer, 3)
            self.assertEqual(begin, held.ask())
            answers = client.requests(self.lab, self.url(balancer), 200)
            self.assertEqual([], answers.failures)
            self.assertEqual({'member1', 'member3', 'member4'},
                             set(answers.count))
        self.wait('DRAINING', lambda: self.member(
            pool, made['member2']).operating_status == 'DRAINING')

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
                self.lab, url, 50).count) == {'member1'}, 20)
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

    def test_connections_beyond_the_limit_are_refused(self):
        balancer, listener, *_ = self.create_web(
            listener_options={'connection_limit': 10})

        def shares():
            found = []
            for node in topology.NODES:
                with self.datapath(node) as opened:
                    found.append(opened.service(
                        self.key(balancer)).settings.connection_limit)
            return sorted(found)
        self.wait('shares of all nodes', lambda: sum(shares()) == 10)
        self.assertLessEqual(shares()[-1] - shares()[0], 1)
        with connections.Connections(
                self.lab, balancer.vip_address, number=1) as held:
            held.ask()
            counted = 0
            for node in topology.NODES:
                with self.datapath(node) as opened:
                    counted += opened.service(
                        self.key(balancer)).open_connections
            self.assertEqual(1, counted)
        self.sdk.update_listener(listener, connection_limit=-1)
        self.wait_active(balancer)
        self.wait('no limit', lambda: not any(shares()))
        answers = client.requests(self.lab, self.url(balancer), 50)
        self.assertEqual([], answers.failures)

    def test_allowed_cidrs_refuse_other_clients(self):
        balancer, listener, *_ = self.create_web(
            listener_options={'allowed_cidrs': ['192.0.2.0/24']})
        url = self.url(balancer)
        answers = client.requests(self.lab, url, 2, timeout=1)
        self.assertEqual(2, len(answers.failures))
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertEqual(
                    1, len(opened.allowed(self.key(balancer))))
        self.sdk.update_listener(
            listener, allowed_cidrs=['192.0.2.0/24', '198.18.20.0/24'])
        self.wait_active(balancer)
        answers = client.requests(self.lab, url, 50)
        self.assertEqual([], answers.failures)
        self.assertEqual(50, sum(answers.count.values()))
