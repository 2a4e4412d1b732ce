# SPDX-License-Identifier: Apache-2.0
"""A load balancer by Ansible's modules."""

from lab.clients import ansible
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.e2e.support import api
from octavia_xdp_provider.tests.support import form

BELOW = ['Listener', 'Pool', 'Member', 'Health monitor']


@form.in_long_form
class TestAnsible(api.ApiTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Here, as a test is inside of the lab's namespaces.
        ansible.make()

    def test_a_playbook_makes_changes_and_removes_a_load_balancer(self):
        name = self.unique('ansible')
        variables = {
            'name': name, 'flavor': self.create_flavor(replicas=2),
            'subnet': 'vips-v4', 'address': members.address('member1')}
        # Before the flavor, which is in use until then.
        self.addCleanup(self.removed, name)

        self.assertEqual(['Load balancer', *BELOW],
                         ansible.run(self.lab, **variables))
        balancer = self.sdk.find_load_balancer(name)
        service = datapath.Key(balancer.vip_address, 'TCP', 80)
        self.wait('nodes with a member that takes flows', lambda: all(
            service in services and services[service].enabled == 1 for services
            in self.services(balancer.vip_address).values()))

        # The second time nothing is to be done.
        before = self.tree(balancer.id)
        self.assertEqual([], ansible.run(self.lab, **variables))
        self.assertEqual(before, self.tree(balancer.id))

        self.assertEqual(['Member', 'Health monitor'], ansible.run(
            self.lab, **variables, weight=5, delay=7))
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertEqual([5], [
                    member.weight for member in opened.members(service)])

        self.assertEqual(['Load balancer'], ansible.run(
            self.lab, **variables, state='absent'))
        self.assertIsNone(self.sdk.find_load_balancer(name))

    def removed(self, name):
        balancer = self.sdk.find_load_balancer(name)
        if balancer is not None:
            self.delete_balancer(balancer)
