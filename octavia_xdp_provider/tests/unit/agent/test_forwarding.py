# SPDX-License-Identifier: Apache-2.0

import ipaddress

from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.common import checks_file
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.tests.unit import base

LIMITS = forwarding.Limits(
    (ipaddress.ip_network('203.0.113.0/24'),),
    (ipaddress.ip_network('127.0.0.0/8'),),
    frozenset({'198.18.1.6'}))
KEY = datapath.Key(base.VIP, 'TCP', 80)


class TestPlan(base.TestCase):

    def setUp(self):
        super().setUp()
        self.document = base.document()
        self.pool = self.document['pools']['pool']
        self.members = self.pool['members']

    def plan(self):
        return forwarding.plan(self.document, LIMITS)

    def test_services_and_checks(self):
        plan = self.plan()
        self.assertEqual([KEY], list(plan.services))
        self.assertEqual(['198.18.10.11', '198.18.10.12'],
                         [member.address for member in plan.services[KEY]])
        checks = {check.address: check for check in plan.checks}
        for member in plan.services[KEY]:
            self.assertEqual(int(checks[member.address].key, 16),
                             member.check)
        self.assertEqual((5, 3, 2, 3), (
            checks['198.18.10.11'].delay, checks['198.18.10.11'].timeout,
            checks['198.18.10.11'].rise, checks['198.18.10.11'].fall))
        self.assertEqual({'m1': (KEY, '198.18.10.11'),
                          'm2': (KEY, '198.18.10.12')}, plan.monitored)

    def test_without_monitor_members_are_not_checked(self):
        self.pool['healthmonitor']['admin_state_up'] = False
        disabled = self.plan()
        self.pool['healthmonitor'] = None
        self.assertEqual(disabled, self.plan())
        self.assertEqual([], disabled.checks)
        self.assertEqual({0}, {member.check for member
                               in disabled.services[KEY]})

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
                                         in plan.services[KEY]])
        self.assertEqual(['198.18.10.12'],
                         [check.address for check in plan.checks])

    def test_monitor_address_and_port(self):
        self.members['m1'].update(monitor_address='198.18.10.99',
                                  monitor_port=8080)
        found = {(check.address, check.port) for check in self.plan().checks}
        self.assertEqual({('198.18.10.99', 8080), ('198.18.10.12', 80)},
                         found)

    def test_every_type_makes_a_check_that_the_checker_takes(self):
        for kind in ('HTTP', 'HTTPS', 'PING', 'SCTP', 'TCP', 'TLS-HELLO',
                     'UDP-CONNECT'):
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

    def test_what_a_node_must_refuse(self):
        for change, option in (
                ({'vip_address': '192.0.2.9'}, 'vip_address'),
                ({'m1': {'address': '127.0.0.1'}}, 'address'),
                ({'m1': {'address': '198.18.1.6'}}, 'address'),
                ({'m1': {'monitor_address': '127.0.0.1'}},
                 'monitor_address')):
            self.document = base.document()
            members = self.document['pools']['pool']['members']
            members['m1'].update(change.pop('m1', {}))
            self.document.update(change)
            error = self.assertRaises(errors.Refused, self.plan)
            self.assertEqual(option, error.option)
