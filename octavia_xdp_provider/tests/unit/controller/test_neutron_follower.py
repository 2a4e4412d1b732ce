# SPDX-License-Identifier: Apache-2.0
"""The follower notices changes of ports, and missed ones later."""

from unittest import mock

from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import follower
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import ports
from octavia_xdp_provider.tests.unit.controller.ports import red

PER_STEP, NUMBER = 2, 6


class Neutron(ports.Neutron):

    def ports(self, addresses, **filters):
        self.looked_at = sorted(addresses)
        return super().ports(addresses, **filters)


def port(number):
    made = ports.port(f'port-{number}')
    made['fixed_ips'] = [{'subnet_id': 'sub-red',
                          'ip_address': f'10.0.0.{number}'}]
    return made


class TestFollower(base.TestCase):

    def setUp(self):
        super().setUp()
        self.ports = [port(number) for number in range(2, 2 + NUMBER)]
        self.members = [red(address=f'10.0.0.{number}')
                        for number in range(2, 2 + NUMBER)]
        self.neutron = Neutron(
            [*self.ports, ports.router_port()])
        self.now = 100.0
        self.follower = follower.Follower(self.neutron, PER_STEP,
                                          clock=lambda: self.now)
        self.assertEqual(set(self.members), set(self.step()))

    def step(self):
        self.follower.leave(self.follower.members - set(self.members))
        self.follower.follow(self.members)
        return self.follower.step()

    def steps(self):
        """Step until each member had its turn, and return all changes."""
        seen = {}
        for _ in range(NUMBER // PER_STEP):
            seen.update(self.step())
        return seen

    def test_step_looks_up_few_members_in_turns(self):
        looked_at = []
        for _ in range(NUMBER // PER_STEP):
            self.assertEqual({}, self.step())
            self.assertEqual(PER_STEP, len(self.neutron.looked_at))
            looked_at += self.neutron.looked_at
        self.assertEqual({member.address for member in self.members},
                         set(looked_at))

    def test_moved_port_is_noticed_in_its_turn(self):
        for member_port in self.ports:
            member_port['binding:host_id'] = 'hv2'
        self.assertEqual(dict.fromkeys(self.members, 'hv2'), {
            member: finding.port.host
            for member, finding in self.steps().items()})
        self.assertEqual({}, self.steps())

    def test_moved_port_with_a_hint_is_noticed_at_once(self):
        self.step()
        for member, member_port in zip(self.members, self.ports, strict=True):
            member_port['binding:host_id'] = 'hv2'
            self.follower.hint([member])
            self.assertEqual('hv2', self.step()[member].port.host)
            member_port['binding:host_id'] = 'hv1'

    def test_deleted_port_is_noticed_in_its_turn(self):
        self.neutron._ports.remove(self.ports[-1])
        self.assertEqual(
            {self.members[-1]: findings.Obstacle.NO_PORT},
            {member: finding.obstacle
             for member, finding in self.steps().items()})

    def test_change_during_an_outage_is_noticed_later(self):
        for member_port in self.ports:
            member_port['binding:host_id'] = 'hv2'
        self.follower.hint(self.members[-1:])
        with mock.patch.object(self.neutron, 'networks', side_effect=(
                errors.NeutronUnavailable())):
            self.assertRaises(errors.NeutronUnavailable, self.step)
        # The hint is kept as well.
        self.assertIn(self.members[-1], self.step())
        self.steps()
        self.assertEqual({}, self.steps())

    def test_look_ups_that_wait_are_counted_with_their_age(self):
        self.assertEqual((0, 0.0), self.follower.waiting())
        self.follower.hint(self.members[:2])
        self.now += 5
        self.follower.hint(self.members[1:3])
        self.assertEqual((3, 5.0), self.follower.waiting())
        with mock.patch.object(self.neutron, 'networks', side_effect=(
                errors.NeutronUnavailable())):
            self.assertRaises(errors.NeutronUnavailable, self.step)
        self.assertEqual((3, 5.0), self.follower.waiting())
        self.step()
        self.assertEqual((0, 0.0), self.follower.waiting())

    def test_member_that_is_left_is_forgotten(self):
        gone = self.members.pop()
        self.step()
        self.members.append(gone)
        self.assertEqual([gone], list(self.step()))

    def test_many_members_of_a_project_delay_no_other(self):
        quick = findings.Wanted('quick', '10.0.0.99', 'sub-red')
        self.members.append(quick)
        self.step()
        for _ in range(3):
            self.step()
            self.assertIn(quick.address, self.neutron.looked_at)
        # Members of the large project have their turns nevertheless.
        looked_at = set()
        for _ in range(NUMBER):
            self.step()
            looked_at.update(self.neutron.looked_at)
        self.assertEqual({member.address for member in self.members},
                         looked_at)

    def test_many_new_members_of_a_project_delay_no_other(self):
        at_once = 2
        self.follower = follower.Follower(self.neutron, PER_STEP, at_once)
        self.members.append(findings.Wanted('quick', '10.0.0.99', 'sub-red'))
        self.step()
        self.assertEqual(at_once, len(self.neutron.looked_at))
        self.assertIn('10.0.0.99', self.neutron.looked_at)
        seen = set(self.neutron.looked_at)
        for _ in range(NUMBER):
            self.follower.step(in_turns=False)
            seen.update(self.neutron.looked_at)
        self.assertEqual({member.address for member in self.members}, seen)
