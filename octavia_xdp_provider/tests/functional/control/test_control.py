# SPDX-License-Identifier: Apache-2.0
"""From the driver through a controller to a node, and back to Octavia."""

import threading

from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions

from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.tests.functional.support import control


class TestControl(control.ControlTestCase):

    def test_from_the_driver_to_a_node_and_back(self):
        self.start_controller()
        node = self.node()
        node.work()
        balancer = self.balancer()
        key = balancer.loadbalancer_id
        self.driver.loadbalancer_create(balancer)
        self.assertEqual({}, node.work())
        self.assertFalse(node.notified.is_set())
        self.commit(key)
        self.assertTrue(node.notified.wait(30), 'the node was not notified')
        self.assertEqual('203.0.113.10', node.work()[key]['vip_address'])
        self.wait_until_active(key)
        node.notified.clear()
        self.driver.loadbalancer_delete(balancer)
        self.commit(key)
        self.assertTrue(node.notified.wait(30), 'the node was not notified')
        self.assertEqual({}, node.work())
        self.wait('DELETED', lambda: (
            self.octavia.provisioning(key) == 'DELETED'))
        self.wait('empty store',
                  lambda: self.store.load_balancers.get(key) is None)

    def test_refusals_come_back_as_octavia_wants_them(self):
        self.start()
        self.create()
        self.assertRaises(exceptions.Conflict,
                          self.driver.loadbalancer_create, self.balancer())
        error = self.assertRaises(
            exceptions.UnsupportedOptionError,
            self.driver.loadbalancer_create, self.balancer('192.0.2.1'))
        self.assertIn('vip_address', error.user_fault_string)
        self.assertRaises(
            exceptions.DriverError, self.driver.member_create,
            data_models.Member(member_id='m', pool_id='nobody',
                               address='198.18.10.11', protocol_port=80))
        row, = self.store.load_balancers.select()
        self.assertIsNone(row.pending)

    def test_without_a_controller_a_request_fails_and_is_not_done_later(self):
        balancer = self.balancer()
        client = controller_client.ControllerClient.get()
        client.conf.set_override('request_timeout', 3, group='driver')
        error = self.assertRaises(
            exceptions.DriverError, self.driver.loadbalancer_create, balancer)
        self.assertIn('did not answer', error.user_fault_string)
        self.start()
        self.wait('controller known to be back', control.is_back)
        self.assertEqual([], self.store.load_balancers.select())
        self.create()

    def test_what_octavia_rolls_back_never_reaches_a_node(self):
        node = self.start()
        key = self.create().loadbalancer_id
        pool_id = self.create_pool(key)
        self.driver.member_create(data_models.Member(
            member_id='m1', pool_id=pool_id, address='198.18.10.1',
            protocol_port=80))
        self.do(key, self.driver.member_create, data_models.Member(
            member_id='m2', pool_id=pool_id, address='198.18.10.2',
            protocol_port=80))
        self.assertEqual({'m2'}, set(
            node.documents[key]['pools'][pool_id]['members']))

    def test_concurrent_changes_are_all_kept(self):
        """Changes of several load balancers run at once: Octavia admits one
        at a time for each."""
        node = self.start()
        failed = []

        def build(number):
            try:
                key = self.create(
                    address=f'203.0.113.{number}').loadbalancer_id
                pool_id = self.create_pool(key)
                for member in range(2):
                    self.do(key, self.driver.member_create,
                            data_models.Member(
                                member_id=f'm{number}-{member}',
                                pool_id=pool_id, protocol_port=80,
                                address=f'198.18.{number}.{member + 1}'))
            except Exception as error:
                failed.append(error)
        threads = [threading.Thread(target=build, args=(number,))
                   for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failed)
        self.assertEqual(
            {f'm{number}-{member}' for number in range(1, 9)
             for member in range(2)},
            {member for document in node.work().values()
             for pool in document['pools'].values()
             for member in pool['members']})
