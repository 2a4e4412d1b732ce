# SPDX-License-Identifier: Apache-2.0
"""Members in VMs as the second member in a packet: support of it, from the
agent's report to the documents of nodes."""

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.tests.unit.controller import hypervisors


class TestAlternatives(hypervisors.ZeroTouchTestCase):

    FEATURES = ('ping', 'second_chance')

    def tree(self, **more):
        tree = super().tree(**more)
        tree['flavor'] = {'zero_touch': 'required', 'second_chance': True,
                          'encapsulation': 'gue'}
        return tree

    def tunnels(self, features=FEATURES, node=spec.VERSION):
        self.hv1.state['features'] = list(features)
        self.hv1.report()
        self.seen('lb1', {'document_version': node})
        self.create()
        self.converge()
        return [member['tunnel'] for member in self.sent().values()]

    def test_alternatives_are_used_if_all_support_them(self):
        for tunnel in self.tunnels():
            self.assertIs(True, tunnel['takes_alternative'])
        self.assertEqual(6, spec.for_node(self.row().document)['version'])

    def test_alternatives_need_support_of_the_agent(self):
        for tunnel in self.tunnels(('ping',)):
            self.assertNotIn('takes_alternative', tunnel)
        self.assertEqual(5, spec.for_node(self.row().document)['version'])

    def test_alternatives_need_support_of_the_node(self):
        for tunnel in self.tunnels(node=5):
            self.assertNotIn('takes_alternative', tunnel)
        self.assertEqual(5, spec.for_node(self.row().document)['version'])

    def test_mtu_leaves_room_for_alternatives(self):
        """The VM's 1442 bytes fit 1,500 with alternatives, but not 1,480."""
        self.hv1.state['mtu'] = 1480
        for tunnel in self.tunnels():
            self.assertEqual(1480 - 36 - 12, tunnel['mtu'])

    def common(self):
        return self.hv1.endpoint.fetch({}, host=self.hv1.name, since=0)[
            'common']

    def test_supporting_agents_get_the_hypervisors_networks(self):
        self.tunnels()
        self.assertEqual(['198.18.20.0/24', 'fd00:9::/64'],
                         self.common()['peers'])

    def test_other_agents_do_not_get_the_hypervisors_networks(self):
        self.assertNotIn('peers', self.common())
        self.tunnels(('ping',))
        self.assertNotIn('peers', self.common())


class TestWithoutSecondChance(hypervisors.ZeroTouchTestCase):

    def test_features_are_ignored_without_second_chance(self):
        self.hv1.state['features'] = ['ping', 'second_chance']
        self.hv1.report()
        self.seen('lb1', {'document_version': spec.VERSION})
        self.create()
        self.converge()
        for member in self.sent().values():
            self.assertNotIn('takes_alternative', member['tunnel'])
        self.assertEqual(3, spec.for_node(self.row().document)['version'])
