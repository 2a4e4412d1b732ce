# SPDX-License-Identifier: Apache-2.0
"""Each object from its creation to its deletion."""

from lab.fabric import client
from lab.fabric import members
from octavia_xdp_provider.tests.e2e.support import base


class TestObjects(base.LabTestCase):

    def test_each_object_gets_active_from_creation_to_deletion(self):
        """Create, update and delete each object; each ends ACTIVE."""
        balancer = self.create_balancer()
        listener = self.sdk.create_listener(
            name=self.unique('listener'), load_balancer_id=balancer.id,
            protocol='TCP', protocol_port=80)
        self.wait_active(balancer)
        pool = self.sdk.create_pool(
            name=self.unique('pool'), listener_id=listener.id,
            protocol='TCP', lb_algorithm='SOURCE_IP_PORT')
        self.wait_active(balancer)
        self.sdk.create_health_monitor(
            name=self.unique('hm'), pool_id=pool.id, type='HTTP',
            delay=base.DELAY, timeout=base.TIMEOUT, max_retries=base.RISE)
        self.wait_active(balancer)
        made = {}
        for host in ('member1', 'member2'):
            made[host] = self.create_member(pool, host)
            self.wait_active(balancer)
        self.wait_routes(balancer)
        self.sdk.update_load_balancer(balancer.id, name=self.unique('lb'))
        self.wait_active(balancer)
        self.sdk.update_listener(listener.id, name='renamed')
        self.wait_active(balancer)
        self.sdk.update_pool(pool.id, name='renamed')
        self.wait_active(balancer)
        self.sdk.update_member(made['member1'], pool, weight=5)
        self.wait_active(balancer)
        monitor = self.sdk.get_pool(pool.id).health_monitor_id
        self.sdk.update_health_monitor(monitor, delay=base.DELAY + 1)
        self.wait_active(balancer)
        self.sdk.delete_member(made['member2'], pool)
        self.wait_active(balancer)
        self.sdk.delete_health_monitor(monitor)
        self.wait_active(balancer)
        self.assertIsNone(self.sdk.get_pool(pool.id).health_monitor_id)
        self.sdk.delete_pool(pool.id)
        self.wait_active(balancer)
        self.wait_routes(balancer, ())
        self.sdk.delete_listener(listener.id)
        self.wait_active(balancer)
        self.delete_balancer(balancer, cascade=False)

    def test_batch_update_replaces_the_members(self):
        balancer, _, pool, _ = self.create_web(
            hosts=['member1', 'member2'])
        batch = [{'address': members.address(host),
                  'protocol_port': 80, 'name': host}
                 for host in ('member2', 'member3')]
        answer = self.sdk.put(f'/lbaas/pools/{pool.id}/members',
                              json={'members': batch})
        self.assertEqual(202, answer.status_code)
        self.wait_active(balancer)
        self.assertEqual({'member2', 'member3'}, {
            member.name for member in self.sdk.members(pool)})
        self.wait_enabled(balancer, 2)
        answers = client.requests(self.lab, self.url(balancer), 60)
        self.assertEqual({'member2', 'member3'}, set(answers.count))
