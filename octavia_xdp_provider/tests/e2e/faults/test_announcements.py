# SPDX-License-Identifier: Apache-2.0
"""When a VIP is announced into the fabric, and when it is not."""

import signal

from lab import processes
from lab.fabric import client
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base


class TestAnnouncements(base.LabTestCase):

    def test_vip_is_announced_only_with_an_enabled_member(self):
        balancer, _, pool, _ = self.create_web(hosts=())
        self.sleep(2)
        self.assertEqual([], self.next_hops(balancer))
        member = self.create_member(pool, 'member1')
        self.wait_active(balancer)
        self.wait_routes(balancer)
        self.sdk.update_member(member, pool, admin_state_up=False)
        self.wait_active(balancer)
        self.wait_routes(balancer, ())
        self.sdk.update_member(member, pool, admin_state_up=True)
        self.wait_active(balancer)
        self.wait_routes(balancer)
        self.sdk.delete_member(member, pool)
        self.wait_active(balancer)
        self.wait_routes(balancer, ())

    def test_vip_is_withdrawn_when_the_last_member_dies(self):
        balancer, *_ = self.create_web(hosts=['member4'])
        server = members.http_name('member4')
        processes.kill(self.lab, server, signal.SIGTERM)
        try:
            self.wait_routes(balancer, ())
        finally:
            self.wait('end of the server',
                      lambda: not processes.alive(self.lab, server))
            processes.restart(self.lab, server)
        self.wait_routes(balancer)

    def test_vip_of_something_switched_off_is_withdrawn(self):
        balancer, listener, pool, _ = self.create_web()
        for update, one in (
                (self.sdk.update_load_balancer, balancer),
                (self.sdk.update_listener, listener),
                (self.sdk.update_pool, pool)):
            update(one.id, admin_state_up=False)
            self.wait_active(balancer)
            self.wait_routes(balancer, ())
            update(one.id, admin_state_up=True)
            self.wait_active(balancer)
            self.wait_routes(balancer)
        answers = client.requests(self.lab, self.url(balancer), 100)
        self.assertEqual([], answers.failures)

    def test_second_listener_keeps_the_vip_announced(self):
        balancer, listener, *_ = self.create_web(hosts=['member1'])
        second = self.sdk.create_listener(
            name=self.unique('listener'), load_balancer_id=balancer.id,
            protocol='TCP', protocol_port=8080)
        self.wait_active(balancer)
        pool = self.sdk.create_pool(
            name=self.unique('pool'), listener_id=second.id, protocol='TCP',
            lb_algorithm='SOURCE_IP_PORT')
        self.wait_active(balancer)
        self.create_member(pool, 'member2', 8080)
        self.wait_active(balancer)
        self.sdk.delete_listener(listener)
        self.wait_active(balancer)
        self.assertEqual(2, len(self.next_hops(balancer)))
        answers = client.requests(self.lab, self.url(balancer, 8080), 20)
        self.assertEqual({'member2': 20}, dict(answers.count))

    def test_deleted_load_balancer_leaves_no_route_and_no_service(self):
        balancer, *_ = self.create_web()
        self.sdk.delete_load_balancer(balancer.id, cascade=True)
        self.wait_gone(balancer)
        self.assertEqual([], self.next_hops(balancer))
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertIsNone(opened.service(self.key(balancer)))

    def test_stopped_node_loses_no_request(self):
        balancer, *_ = self.create_web()
        try:
            with client.Load(self.lab, self.url(balancer)) as load:
                self.sleep(0.5)
                nodes.stop(self.lab, 'lb2')
                self.wait_routes(balancer, ['lb1'], 5)
                self.sleep(1)
        finally:
            for process in nodes.PROCESSES:
                self.started('lb2', process)
        self.assertEqual([], load.answers.failures)
        self.wait_routes(balancer)
