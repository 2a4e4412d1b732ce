# SPDX-License-Identifier: Apache-2.0
"""A pool of as many members as there may be, from a load balancer's document
to the tables of a real datapath.
"""

import collections
import ipaddress

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.api import rules
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.unit import base

POLICY = address_policy.AddressPolicy(
    tuple(map(ipaddress.ip_network, ('203.0.113.0/24',))), ())
FIRST = ipaddress.ip_address('198.18.16.1')
SLOTS = 1048573  # what so many members need
PORTS = (8080, 8081)


class TestWidePools(private_node.PrivateState):

    def setUp(self):
        super().setUp()
        self.datapath = self.open(members_max=2 * rules.MEMBERS_MAX,
                                  slots_max=0)
        self.addCleanup(self.datapath.close)

    def plan(self, names, **flavor):
        document = base.document(flavor=flavor)
        document['pools']['pool']['members'] = {
            f'm{number}': dict(
                document['pools']['pool']['members']['m1'],
                address=address, protocol_port=port)
            for number, (address, port) in enumerate(names)}
        # The document as sent through the broker.
        return forwarding.plan(spec.for_node(document),
                               forwarding.Context(POLICY))

    def set(self, plan):
        ((key, service),) = plan.services.items()
        self.assertEqual(({key}, {}), self.datapath.set_services({
            key: (service.settings, service.members)}))
        self.datapath.apply_health(
            [(member.check, True) for member in service.members])
        return key

    def expect(self, key, names):
        service = self.datapath.service(key)
        self.assertEqual((SLOTS, rules.MEMBERS_MAX),
                         (service.slots, service.enabled))
        self.assertEqual(set(names), {
            (member.address, member.port)
            for member in self.datapath.members(key)})
        # Equal weights: each has a slot more or less than another.
        slots = collections.Counter(self.datapath.tables(key)[0])
        self.assertEqual(rules.MEMBERS_MAX, len(slots))
        share = SLOTS / rules.MEMBERS_MAX
        self.assertLess(max(slots.values()), 1.01 * share)
        self.assertGreater(min(slots.values()), 0.99 * share)

    def test_one_port_of_each_address(self):
        addresses = [str(FIRST + number)
                     for number in range(rules.MEMBERS_MAX)]
        plan = self.plan([(address, 80) for address in addresses])
        self.assertEqual(rules.MEMBERS_MAX, len(plan.monitored))
        self.expect(self.set(plan), [(address, 0) for address in addresses])

    def test_several_ports_of_each_address(self):
        names = [(str(FIRST + number // len(PORTS)),
                  PORTS[number % len(PORTS)])
                 for number in range(rules.MEMBERS_MAX)]
        plan = self.plan(names, member_port='rewrite')
        self.assertEqual(rules.MEMBERS_MAX, len(plan.monitored))
        key = self.set(plan)
        self.expect(key, names)
        changed, refused = self.datapath.set_services({
            key: (plan.services[key].settings,
                  plan.services[key].members[:-1])})
        self.assertEqual(({key}, {}), (changed, refused))
        self.assertEqual(rules.MEMBERS_MAX - 1,
                         self.datapath.service(key).enabled)
