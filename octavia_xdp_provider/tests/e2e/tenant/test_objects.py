# SPDX-License-Identifier: Apache-2.0
"""Each object from its creation to its deletion."""

from lab.fabric import members
from octavia_xdp_provider.tests.e2e.support import base


class TestObjects(base.LabTestCase):

    def test_each_object_gets_active_from_creation_to_deletion(self):
        """Each call ends ACTIVE; the VIP is announced while there is an
        enabled member."""
        balancer = self.create_balancer()

        def settled(made):
            self.wait_active(balancer)
            return made
        listener = settled(self.sdk.create_listener(
            name=self.unique('listener'), load_balancer_id=balancer.id,
            protocol='TCP', protocol_port=80))
        pool = settled(self.sdk.create_pool(
            name=self.unique('pool'), listener_id=listener.id,
            protocol='TCP', lb_algorithm='SOURCE_IP_PORT'))
        monitor = settled(self.sdk.create_health_monitor(
            name=self.unique('hm'), pool_id=pool.id, type='HTTP',
            delay=base.DELAY, timeout=base.TIMEOUT, max_retries=base.RISE))
        self.assertEqual([], self.next_hops(balancer))
        member = settled(self.create_member(pool, 'member1'))
        self.wait_routes(balancer)
        settled(self.sdk.update_load_balancer(balancer, name='renamed'))
        settled(self.sdk.update_listener(listener, name='renamed'))
        settled(self.sdk.update_pool(pool, name='renamed'))
        settled(self.sdk.update_health_monitor(
            monitor, delay=base.DELAY + 1))
        settled(self.sdk.update_member(member, pool, admin_state_up=False))
        self.wait_routes(balancer, ())
        self.replace_members(pool, 'member2', 'member3')
        self.wait_active(balancer)
        self.assertEqual({'member2', 'member3'}, set(self.statuses(pool)))
        self.wait_enabled(balancer, 2)
        self.wait_routes(balancer)
        settled(self.sdk.delete_health_monitor(monitor))
        self.assertIsNone(self.sdk.get_pool(pool.id).health_monitor_id)
        for member in self.sdk.members(pool):
            settled(self.sdk.delete_member(member, pool))
        self.wait_routes(balancer, ())
        settled(self.sdk.delete_pool(pool))
        settled(self.sdk.delete_listener(listener))
        self.delete_balancer(balancer, cascade=False)

    def replace_members(self, pool, *hosts):
        answer = self.sdk.put(f'/lbaas/pools/{pool.id}/members', json={
            'members': [{'address': members.address(host),
                         'protocol_port': 80, 'name': host}
                        for host in hosts]})
        self.assertEqual(202, answer.status_code)
