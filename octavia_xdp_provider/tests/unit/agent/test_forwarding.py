# SPDX-License-Identifier: Apache-2.0

import dataclasses
import typing
from unittest import mock

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.health import monitors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning

POLICY = planning.POLICY
KEY = planning.KEY


class TestPlan(planning.PlanTestCase):

    def test_services_and_checks_are_planned(self):
        plan = self.plan()
        self.assertEqual([KEY], list(plan.services))
        self.assertEqual(['198.18.10.11', '198.18.10.12'],
                         [member.address for member
                          in plan.services[KEY].members])
        checks = {check.address: check for check in plan.checks}
        for member in plan.services[KEY].members:
            self.assertEqual(int(checks[member.address].key, 16),
                             member.check)
        self.assertEqual((5, 3, 2, 3), (
            checks['198.18.10.11'].delay, checks['198.18.10.11'].timeout,
            checks['198.18.10.11'].rise, checks['198.18.10.11'].fall))
        self.assertEqual({'m1': (KEY, datapath.MemberName('198.18.10.11')),
                          'm2': (KEY, datapath.MemberName('198.18.10.12'))},
                         plan.monitored)

    def test_members_are_not_checked_without_a_monitor(self):
        self.pool['healthmonitor']['admin_state_up'] = False
        disabled = self.plan()
        self.pool['healthmonitor'] = None
        self.assertEqual(disabled, self.plan())
        self.assertEqual([], disabled.checks)
        self.assertEqual({0}, {member.check for member
                               in disabled.services[KEY].members})

    def test_admin_down_has_no_service(self):
        for part in (self.document, self.document['listeners']['listener'],
                     self.pool):
            part['admin_state_up'] = False
            self.assertEqual({}, self.plan().services)
            self.assertEqual([], self.plan().checks)
            part['admin_state_up'] = True

    def test_disabled_member_stays_without_a_check(self):
        self.members['m1']['admin_state_up'] = False
        plan = self.plan()
        self.assertEqual([False, True], [member.admin_up for member
                                         in plan.services[KEY].members])
        self.assertEqual(['198.18.10.12'],
                         [check.address for check in plan.checks])

    def test_monitor_address_and_port_are_probed(self):
        self.members['m1'].update(monitor_address='198.18.10.99',
                                  monitor_port=8080)
        probed = {(check.address, check.port) for check in self.plan().checks}
        self.assertEqual({('198.18.10.99', 8080), ('198.18.10.12', 80)},
                         probed)

    def test_every_type_makes_a_check_that_the_checker_takes(self):
        for kind in typing.get_args(fields.MonitorType):
            self.pool['healthmonitor'].update(type=kind,
                                              domain_name='www.example.org',
                                              http_version=1.1)
            checks = self.plan().checks
            document = checks_file.build_document(checks)
            for check in document['checks']:
                self.assertEqual(kind.lower(), check['type'])
                self.assertEqual(kind in ('HTTP', 'HTTPS'), 'http' in check)
                if kind in ('HTTPS', 'TLS-HELLO'):
                    self.assertEqual('www.example.org',
                                     check['tls']['server_name'])

    def add_pool(self, name, port, members, **monitor):
        """Another listener with a pool of its own."""
        pool = base.document()['pools']['pool']
        pool['members'] = {
            key: dict(pool['members']['m1'], address=address,
                      protocol_port=port)
            for key, address in members.items()}
        pool['healthmonitor'].update(monitor)
        self.document['pools'][name] = pool
        self.document['listeners'][name] = dict(
            self.document['listeners']['listener'], protocol_port=port,
            default_pool_id=name)

    def decided_by(self, plan, port, address):
        """Keys of the checks that decide the state of a member."""
        key = datapath.Key(base.VIP, 'TCP', port)
        number, = {member.check for member in plan.services[key].members
                   if member.address == address}
        name = f'{number:016x}'
        for condition in plan.conditions:
            if condition.key == name:
                return condition.checks
        return {name}

    def test_shared_pool_has_one_group(self):
        """A pool of two listeners is guarded as one."""
        self.document['listeners']['other'] = dict(
            self.document['listeners']['listener'], protocol_port=8080)
        # No flavor allows it yet.
        self.assertRaises(errors.Refused, self.plan)
        with mock.patch.object(validation, 'read',
                               lambda document, _policy: document):
            plan = self.plan_through()
            self.assertEqual(4, len(plan.pools['pool']))
            self.assertEqual(2, len(self.plan().pools['pool']))

    def plan_through(self, marks=None):
        """With a mark for each member, 1 and on."""
        marks = {} if marks is None else marks
        return planning.plan(
            self.document,
            mark=lambda *target: marks.setdefault(
                target, len(marks) + 1))

    def through(self, protocol='TCP', **monitor):
        """(type, address, port, mark) of what decides the state of m1."""
        self.document['listeners']['listener']['protocol'] = protocol
        self.pool['protocol'] = protocol
        self.pool['healthmonitor'].update(monitor)
        plan = self.plan_through()
        key, = plan.listeners['listener']
        member, = (member for member in plan.services[key].members
                   if member.address == '198.18.10.11')
        name = f'{member.check:016x}'
        keys = {name}
        for condition in plan.conditions:
            if condition.key == name:
                keys = condition.checks
        checks_file.build_document(plan.checks, plan.conditions)
        return {(check.type, check.address, check.port, check.mark)
                for check in plan.checks if check.key in keys}

    def test_mark_replaces_the_check_of_the_service(self):
        for kind in ('TCP', 'HTTP', 'HTTPS', 'TLS-HELLO', 'SCTP', 'PING'):
            self.assertEqual({(kind.lower(), base.VIP, 80, 1)},
                             self.through(type=kind))
        check, = (check for check in self.plan_through().checks
                  if check.mark == 1)
        own, = (check for check in self.plan().checks
                if check.address == '198.18.10.11')
        self.assertEqual(own, dataclasses.replace(
            check, address=own.address, mark=None))

    def test_beside_each_type_elsewhere_the_service_has_a_good_check(self):
        self.members['m1']['monitor_port'] = 8080
        for kind in typing.get_args(fields.MonitorType):
            # through() has the schema look at them.
            self.assertIn(1, {mark for *_, mark in self.through(type=kind)})

    def test_separate_monitor_address_is_checked_in_addition(self):
        member = self.members['m1']
        member['monitor_port'] = 8080
        self.assertEqual({('http', '198.18.10.11', 8080, None),
                          ('tcp', base.VIP, 80, 1)}, self.through())
        self.assertEqual({('http', '198.18.10.11', 8080, None),
                          ('sctp', base.VIP, 80, 1)}, self.through('SCTP'))
        member.update(monitor_port=None, monitor_address='198.18.10.99')
        self.assertEqual({('ping', '198.18.10.99', 80, None),
                          ('tcp', base.VIP, 80, 1)}, self.through(
                              type='PING'))
        # A port of the member that its own tool rewrites.
        self.document['flavor'] = {'member_port': 'rewrite'}
        member.update(monitor_address='198.18.10.11', protocol_port=8080,
                      monitor_port=8080)
        self.assertEqual({('http', base.VIP, 80, 1)},
                         self.through(type='HTTP'))
        self.assertEqual({('http', '198.18.10.11', 8080, None),
                          ('udp-connect', base.VIP, 80, 1),
                          ('ping', base.VIP, 80, 1)}, self.through('UDP'))

    def test_silent_udp_check_is_joined_by_a_ping_through_the_tunnel(self):
        self.assertEqual({('udp-connect', base.VIP, 80, 1),
                          ('ping', base.VIP, 80, 1)},
                         self.through('UDP', type='UDP-CONNECT'))
        self.assertEqual({('ping', base.VIP, 80, 1)},
                         self.through('UDP', type='PING'))
        self.members['m1']['monitor_port'] = 8080
        self.assertEqual({('http', '198.18.10.11', 8080, None),
                          ('udp-connect', base.VIP, 80, 1),
                          ('ping', base.VIP, 80, 1)},
                         self.through('UDP', type='HTTP'))

    def test_member_without_a_mark_is_probed_at_its_address(self):
        plan = planning.plan(self.document,
                               mark=lambda *_way: None)
        self.assertEqual(self.plan(), plan)

    def test_pools_decide_for_themselves(self):
        self.add_pool('other', 443, {'n1': '198.18.10.11'}, type='TCP')
        plan = self.plan()
        self.assertEqual([], plan.conditions)
        self.assertNotEqual(self.decided_by(plan, 80, '198.18.10.11'),
                            self.decided_by(plan, 443, '198.18.10.11'))

    def test_all_monitors_of_a_load_balancer_decide(self):
        self.add_pool('other', 443, {'n1': '198.18.10.11',
                                     'n3': '198.18.10.13'}, type='TCP')
        plan = planning.plan(self.document,
                               scope=forwarding.LOAD_BALANCER)
        keys = {(check.type, check.address): check.key
                for check in plan.checks}
        both = {keys['http', '198.18.10.11'], keys['tcp', '198.18.10.11']}
        for port in (80, 443):
            self.assertEqual(both,
                             self.decided_by(plan, port, '198.18.10.11'))
        self.assertEqual({keys['http', '198.18.10.12']},
                         self.decided_by(plan, 80, '198.18.10.12'))
        self.assertEqual({keys['tcp', '198.18.10.13']},
                         self.decided_by(plan, 443, '198.18.10.13'))
        # The checks file has each check and condition once.
        document = checks_file.build_document(plan.checks, plan.conditions)
        self.assertEqual(4, len(document['checks']))
        self.assertEqual(1, len(document['conditions']))
        self.assertEqual({'m1', 'm2', 'n1', 'n3'}, set(plan.monitored))

    def test_unmonitored_and_disabled_members_do_not_count(self):
        """Pools without monitor and disabled members neither ask nor obey."""
        self.add_pool('other', 443, {'n1': '198.18.10.11'}, type='TCP')
        self.add_pool('unused', 22, {'o1': '198.18.10.11'}, type='PING')
        self.document['listeners']['unused']['admin_state_up'] = False
        others = self.document['pools']['other']
        for change in (lambda: others['healthmonitor'].update(
                           admin_state_up=False),
                       lambda: others.update(healthmonitor=None),
                       lambda: others['members']['n1'].update(
                           admin_state_up=False)):
            change()
            plan = planning.plan(self.document,
                                   scope=forwarding.LOAD_BALANCER)
            self.assertEqual([], plan.conditions)
            self.assertEqual(self.plan(), plan)
            service = plan.services[datapath.Key(base.VIP, 'TCP', 443)]
            self.assertEqual([0], [member.check for member in service.members])

    def test_equal_checks_are_one(self):
        """Pools that ask the same of a monitor port need no condition."""
        self.add_pool('other', 443, {'n1': '198.18.10.11'})
        for pool, member in (('pool', 'm1'), ('other', 'n1')):
            self.document['pools'][pool]['members'][member].update(
                monitor_port=8080)
        plan = planning.plan(self.document,
                               scope=forwarding.LOAD_BALANCER)
        self.assertEqual([], plan.conditions)
        self.assertEqual(self.decided_by(plan, 80, '198.18.10.11'),
                         self.decided_by(plan, 443, '198.18.10.11'))
        self.assertEqual(
            2, len(checks_file.build_document(plan.checks)['checks']))

    def test_several_checks_of_one_monitor_are_joined(self):
        real = monitors.check

        def two(monitor, member, through=None):
            check = real(monitor, member)
            return [check, dataclasses.replace(check, mark=7)]
        with mock.patch.object(forwarding, 'checks', two):
            plan = self.plan()
        self.assertEqual(2, len(plan.conditions))
        self.assertEqual({condition.key for condition in plan.conditions},
                         plan.pools['pool'])
        self.assertEqual(2, len(self.decided_by(plan, 80, '198.18.10.11')))

    def test_disallowed_addresses_are_refused(self):
        for change, option in (
                ({'vip_address': '192.0.2.9'}, 'vip_address'),
                ({'m1': {'address': '127.0.0.1'}}, 'address'),
                ({'m1': {'address': '198.18.1.6'}}, 'address'),
                ({'m1': {'address': '::ffff:127.0.0.1'}},
                 'pools.pool.members.m1.address'),
                ({'vip_address': '::ffff:203.0.113.9'}, 'vip_address'),
                ({'m1': {'monitor_address': '127.0.0.1'}},
                 'monitor_address')):
            self.document = base.document()
            members = self.document['pools']['pool']['members']
            members['m1'].update(change.pop('m1', {}))
            self.document.update(change)
            error = self.assertRaises(errors.Refused, self.plan)
            self.assertEqual(option, error.option)

    def test_weight_backup_and_path_mtu_are_planned(self):
        self.members['m1'].update(weight=0, backup=True)
        asked = []

        def path_mtu(address):
            asked.append(address)
            return 1400 if address.endswith('11') else 0
        members = self.plan(path_mtu).services[KEY].members
        self.assertEqual([(0, True, 1400), (1, False, 0)],
                         [(member.weight, member.backup, member.mtu)
                          for member in members])
        self.assertEqual(['198.18.10.11', '198.18.10.12'], sorted(asked))

    def test_address_families_of_vip_and_members_may_differ(self):
        self.document['vip_address'] = '2001:DB8:113::0a'
        self.members['m1']['address'] = '2001:DB8:10::1'
        plan = self.plan()
        self.assertEqual(('2001:db8:113::a',), plan.vips)
        service = plan.services[KEY._replace(address='2001:db8:113::a')]
        self.assertEqual({4, 6}, service.families(base.VIP))
        self.assertEqual('2001:db8:10::1', str(plan.monitored['m1'][1]))


class TestDualStack(planning.PlanTestCase):

    def setUp(self):
        super().setUp()
        self.document['additional_vips'] = [
            {'ip_address': '2001:db8:113::10'}]
        self.keys = (KEY, datapath.Key('2001:db8:113::10', 'TCP', 80))

    def test_each_vip_has_a_service_with_all_members(self):
        plan = self.plan()
        self.assertEqual(set(self.keys), set(plan.services))
        members, other = (plan.services[key].members for key in self.keys)
        self.assertEqual(members, other)
        self.assertEqual({'listener': self.keys}, plan.listeners)
        self.assertEqual(('203.0.113.10', '2001:db8:113::10'), plan.vips)

    def test_member_is_checked_once(self):
        plan = self.plan()
        self.assertEqual(2, len({check.key for check in plan.checks}))
        self.assertEqual({KEY}, {key for key, _ in plan.monitored.values()})

    def test_each_family_has_its_own_clients(self):
        listener = self.document['listeners']['listener']
        for cidrs, expected in (
                (['198.51.100.0/24', '2001:db8::/32'],
                 [('198.51.100.0/24',), ('2001:db8::/32',)]),
                (['198.51.100.0/24'], [('198.51.100.0/24',), ('::/128',)]),
                (None, [None, None])):
            listener['allowed_cidrs'] = cidrs
            plan = self.plan()
            self.assertEqual(expected, [
                plan.services[key].settings.allowed for key in self.keys])

    def test_netmask_applies_to_its_family_only(self):
        self.pool['session_persistence'] = {
            'type': 'SOURCE_IP', 'persistence_timeout': None,
            'persistence_granularity': '255.255.255.0'}
        plan = self.plan()
        self.assertEqual([24, 0], [
            plan.services[key].settings.source_length_v4
            for key in self.keys])

    def test_https_is_a_service_of_tcp(self):
        self.document['listeners']['listener']['protocol'] = 'HTTPS'
        self.pool['protocol'] = 'HTTPS'
        self.assertEqual(set(self.keys), set(self.plan().services))
