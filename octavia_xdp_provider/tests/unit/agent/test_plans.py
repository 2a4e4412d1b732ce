# SPDX-License-Identifier: Apache-2.0
"""When plans are made again, and collisions of the keys of checks."""

import dataclasses
import ipaddress
from unittest import mock

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.agent import plans
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.tests.unit import base


class Colliding(checks_file.Keys):
    """Gives all checks with a delay of 77 seconds one key."""

    def of(self, target):
        if getattr(target, 'delay', None) == 77:
            return '7' * 16
        return super().of(target)


class PlansTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.networks = (ipaddress.ip_network('203.0.113.0/24'),)
        self.denied = ()
        self.path_mtu = mock.Mock(version=0)
        self.path_mtu.of.return_value = 0
        self.plans = self.make()
        self.wanted = {'a': (1, self.document('a', 10)),
                       'b': (2, self.document('b', 11))}

    def make(self, keys=checks_file.UNKEYED, probes=None):
        return plans.Plans(self.load(''), plans.Inputs(
            lambda: address_policy.AddressPolicy(self.networks, self.denied),
            self.path_mtu, probes, keys))

    def document(self, key, number, delay=5):
        document = base.document(vip_address=f'203.0.113.{number}')
        pool = document['pools']['pool']
        pool['healthmonitor']['delay'] = delay
        pool['members'] = {'m': dict(pool['members']['m1'],
                                     address=f'198.18.10.{number}')}
        return dict(document, id=key)

    def planned(self):
        """Ids of what is planned for what is wanted now."""
        with mock.patch.object(forwarding, 'plan',
                               wraps=forwarding.plan) as plan:
            self.changes = self.plans.update(self.wanted)
        return [call.args[0]['id'] for call in plan.call_args_list]


class TestPlans(PlansTestCase):

    def test_only_what_has_changed_is_planned(self):
        self.assertEqual(['a', 'b'], self.planned())
        self.assertEqual([], self.planned())
        self.wanted['b'] = (3, self.document('b', 11, delay=9))
        self.assertEqual(['b'], self.planned())
        self.assertEqual(({'b'}, {'b'}, set()), self.changes)

    def test_renamed_load_balancer_keeps_its_plan(self):
        self.planned()
        self.wanted['b'] = (3, dict(self.wanted['b'][1], name='other'))
        self.planned()
        self.assertEqual(({'b'}, set(), set()), self.changes)

    def test_unwanted_load_balancer_is_forgotten(self):
        self.planned()
        del self.wanted['a']
        self.assertEqual([], self.planned())
        self.assertEqual((set(), set(), {'a'}), self.changes)
        self.assertEqual(['b'], list(self.plans.plans))

    def test_changed_policy_or_mtus_replan_everything(self):
        self.planned()
        self.denied = (ipaddress.ip_network('198.18.10.11'),)
        self.assertEqual(['a', 'b'], self.planned())
        self.assertEqual(({'a', 'b'}, {'b'}, set()), self.changes)
        self.assertIn('198.18.10.11', self.plans.failed['b'])
        self.path_mtu.version += 1
        self.path_mtu.of.return_value = 1400
        self.assertEqual(['a', 'b'], self.planned())
        member, = self.plans.plans['a'].services.popitem()[1].members
        self.assertEqual(1400, member.mtu)

    def test_another_mark_of_a_probe_is_planned(self):
        marks = {'203.0.113.10': 7, '203.0.113.11': 8}
        probes = mock.Mock()
        probes.mark.side_effect = lambda vip, *_: marks[vip]
        probes.targets.side_effect = dict.fromkeys
        probes.version = 1
        self.plans = self.make(probes=probes)
        self.planned()
        self.assertEqual([], self.planned())
        marks['203.0.113.11'] = None
        probes.version = 2
        self.assertEqual(['b'], self.planned())
        # Those that are not planned again keep theirs, too.
        probes.mark.reset_mock()
        probes.keep.reset_mock()
        self.assertEqual([], self.planned())
        probes.mark.assert_not_called()
        self.assertEqual([
            mock.call({7: None}, {'203.0.113.10'}),
            mock.call({}, {'203.0.113.11'})], probes.keep.mock_calls)


class TestCollisions(PlansTestCase):

    def setUp(self):
        super().setUp()
        self.plans = self.make(keys=Colliding())

    def test_second_check_with_a_key_is_refused(self):
        self.wanted['b'] = (2, self.document('b', 11, delay=77))
        self.wanted['c'] = (3, self.document('c', 12, delay=77))
        self.wanted['d'] = (4, self.document('d', 13))
        self.planned()
        self.assertEqual({'a', 'b', 'd'}, self.plans.plans.keys())
        self.assertIn('7' * 16, self.plans.failed['c'])
        self.assertIn('change any value', self.plans.failed['c'])

    def test_first_check_with_a_key_stays(self):
        self.wanted['b'] = (2, self.document('b', 11, delay=77))
        self.planned()
        self.wanted['a'] = (3, self.document('a', 10, delay=77))
        self.planned()
        self.assertEqual({'b'}, self.plans.plans.keys())
        self.assertIn('health monitor', self.plans.failed['a'])

    def test_changed_check_ends_the_collision(self):
        for key, number in (('a', 10), ('b', 11)):
            self.wanted[key] = (2, self.document(key, number, delay=77))
        self.planned()
        self.wanted['b'] = (3, self.document('b', 11, delay=78))
        self.planned()
        self.assertEqual(({'a', 'b'}, {}), (
            set(self.plans.plans), self.plans.failed))

    def test_two_checks_of_one_load_balancer_with_one_key_are_refused(self):
        document = self.document('a', 10, delay=77)
        members = document['pools']['pool']['members']
        members['other'] = dict(members['m'], address='198.18.10.99')
        self.wanted['a'] = (2, document)
        self.planned()
        self.assertIn('stands for two checks', self.plans.failed['a'])

    def test_equal_checks_of_several_are_one(self):
        self.wanted = {key: (1, dict(
            self.document(key, 10, delay=77), vip_address=f'203.0.113.{n}'))
            for n, key in enumerate('abc')}
        self.planned()
        self.assertEqual({}, self.plans.failed)
        del self.wanted['a']
        self.planned()
        self.wanted['b'] = (9, self.document('b', 20, delay=77))
        self.planned()
        # The last one that has it still holds the key.
        self.assertEqual(['b'], list(self.plans.failed))


class TestKeys(base.TestCase):

    def test_spelling_of_an_address_does_not_change_a_check(self):
        check = checks_file.Check('tcp', '2001:db8::1', 80, 5, 5)
        other = dataclasses.replace(check, address='2001:DB8:0::1')
        owners = plans._KeyOwners(checks_file.UNKEYED)
        for key, owned in (('a', check), ('b', other)):
            owners.set(key, mock.Mock(checks=[owned], conditions=[]))
