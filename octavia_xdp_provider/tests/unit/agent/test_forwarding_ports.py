# SPDX-License-Identifier: Apache-2.0
"""Members of one address and several ports, which nodes write."""

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning

POLICY = planning.POLICY
KEY = planning.KEY
ADDRESS = '198.18.10.11'
NAMES = {'m1': datapath.MemberName(ADDRESS, 8080),
         'm2': datapath.MemberName(ADDRESS, 8081)}


class TestPorts(planning.PlanTestCase):

    def setUp(self):
        super().setUp()
        self.document['flavor'] = {'member_port': 'rewrite'}
        for member_id, name in NAMES.items():
            self.members[member_id].update(address=name.address,
                                           protocol_port=name.port)

    def names(self, plan, key=KEY):
        return [datapath.MemberName(member.address, member.port)
                for member in plan.services[key].members]

    def test_each_port_is_a_member_with_a_check_of_its_own(self):
        plan = self.plan()
        self.assertEqual(sorted(NAMES.values()), sorted(self.names(plan)))
        self.assertEqual({member_id: (KEY, name) for member_id, name
                          in NAMES.items()}, plan.monitored)
        by_port = {check.port: int(check.key, 16) for check in plan.checks}
        self.assertEqual({8080, 8081}, set(by_port))
        self.assertEqual(by_port, {member.port: member.check for member
                                   in plan.services[KEY].members})

    def test_single_member_is_named_by_its_port_too(self):
        del self.members['m1']
        self.assertEqual([NAMES['m2']], self.names(self.plan()))
        # And where it is the listener's: its slots must not depend on others.
        self.members['m2']['protocol_port'] = 80
        self.assertEqual([datapath.MemberName(ADDRESS, 80)],
                         self.names(self.plan()))

    def test_port_is_kept_without_rewrite(self):
        self.members['m2']['address'] = '198.18.10.12'
        for flavor, port in (
                ({}, 80), ({'member_port': 'rewrite_on_member'}, 8080)):
            self.document['flavor'] = flavor
            for member in self.members.values():
                member['protocol_port'] = port
            self.assertEqual([0, 0], [name.port for name
                                      in self.names(self.plan())])

    def test_repeated_address_without_rewrite_is_refused(self):
        self.document['flavor'] = {'member_port': 'rewrite_on_member'}
        error = self.assertRaises(errors.Refused, self.plan)
        self.assertIn('member_port rewrite', str(error))

    def test_marks_distinguish_the_ports(self):
        asked = []

        def mark(vip, member, *_way):
            asked.append((vip, member))
            return len(asked)
        plan = planning.plan(self.document, mark=mark)
        self.assertEqual({(base.VIP, name) for name in NAMES.values()},
                         set(asked))
        # To the listener's port: the program for probes writes the member's.
        self.assertEqual({(base.VIP, 80, 1), (base.VIP, 80, 2)},
                         {(check.address, check.port, check.mark)
                          for check in plan.checks})

    def test_health_of_a_load_balancer_is_that_of_address_and_port(self):
        plan = planning.plan(self.document,
                               scope=forwarding.LOAD_BALANCER)
        self.assertEqual([], plan.conditions)
        self.assertEqual(2, len({member.check for member
                                 in plan.services[KEY].members}))
