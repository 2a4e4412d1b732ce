# SPDX-License-Identifier: Apache-2.0
"""Members in VMs that packets name second, from the flavor to the documents
of nodes and the agent's networks."""

from octavia_xdp_provider.tests.unit.controller import hypervisors


class TestAlternatives(hypervisors.ZeroTouchTestCase):

    def tree(self, **more):
        tree = super().tree(**more)
        tree['flavor'] = {'zero_touch': 'required', 'second_chance': True,
                          'encapsulation': 'gue'}
        return tree

    def tunnels(self):
        self.create()
        self.converge()
        return [member['tunnel'] for member in self.sent().values()]

    def test_they_are_named(self):
        for tunnel in self.tunnels():
            self.assertIs(True, tunnel['takes_alternative'])

    def test_mtu_leaves_room_for_alternatives(self):
        """The VM's 1442 bytes fit 1,500 with alternatives, but not 1,480."""
        self.hv1.state['mtu'] = 1480
        self.hv1.report()
        for tunnel in self.tunnels():
            self.assertEqual(1480 - 36 - 12, tunnel['mtu'])

    def test_agents_learn_where_hypervisors_are(self):
        self.assertEqual(
            ['198.18.20.0/24', 'fd00:9::/64'],
            self.hv1.endpoint.fetch({}, host=self.hv1.name, since=0)[
                'common']['peers'])


class TestWithoutSecondChance(hypervisors.ZeroTouchTestCase):

    def test_nothing_names_a_second_member(self):
        self.create()
        self.converge()
        for one in self.sent().values():
            self.assertNotIn('takes_alternative', one['tunnel'])
