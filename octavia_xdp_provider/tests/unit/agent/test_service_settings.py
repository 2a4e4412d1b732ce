# SPDX-License-Identifier: Apache-2.0
"""The settings of a service, from listener, pool and flavor."""

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning

KEY = planning.KEY


class TestServiceSettings(planning.PlanTestCase):

    def settings(self, flavor=None, **pool):
        """Settings of the only service with these changes."""
        self.document['flavor'] = flavor or {}
        self.pool.update(pool)
        service, = self.plan().services.values()
        return service.settings

    def test_service_keeps_the_listeners_port(self):
        self.document['flavor'] = {'member_port': 'rewrite'}
        for member in self.members.values():
            member['protocol_port'] = 8080
        plan = self.plan()
        self.assertEqual([KEY], list(plan.services))
        self.assertEqual({8080}, {check.port for check in plan.checks})

    def test_flavor_decides_the_encapsulation(self):
        for flavor, wanted in (
                ({'encapsulation': 'ipip'}, {}),
                ({'encapsulation': 'gue'}, {'encapsulation': 1}),
                ({'encapsulation': 'gre'}, {'encapsulation': 2}),
                ({'encapsulation': 'dscp', 'dscp': 5},
                 {'encapsulation': 3, 'dscp': 5}),
                ({'encapsulation': 'srv6', 'srv6_function': 0x1234},
                 {'encapsulation': 4, 'sid_function': 0x1234})):
            self.document['vip_address'] = '2001:db8:113::a'
            self.members['m1']['address'] = '2001:db8:10::1'
            self.members['m2']['address'] = '2001:db8:11::2'
            self.assertEqual(datapath.Settings()._replace(**wanted),
                             self.settings(flavor))

    def test_path_mtu_of_the_sid_is_used(self):
        self.document['flavor'] = {'encapsulation': 'srv6',
                                   'srv6_function': 0x1234}
        self.members['m1']['address'] = '2001:db8:10::1'
        del self.members['m2']
        asked = []
        self.plan(lambda address: asked.append(address) or 0)
        self.assertEqual(['2001:db8:10::1234'], asked)

    def test_limits_of_clients_become_settings(self):
        self.document['listeners']['listener']['allowed_cidrs'] = [
            '198.51.100.0/24', '192.0.2.0/28']
        self.assertEqual(
            datapath.Settings(
                idle_timeout_s=60, new_flow_rate=10, new_flow_burst=20,
                allowed=('192.0.2.0/28', '198.51.100.0/24')),
            self.settings({'idle_timeout': 60, 'new_flow_rate': 10,
                           'new_flow_burst': 20}))
        self.document['listeners']['listener']['allowed_cidrs'] = []
        self.assertIsNone(self.settings().allowed)

    def test_quic_is_for_udp(self):
        self.assertEqual(0, self.settings({'quic': True}).flags)
        self.document['listeners']['listener']['protocol'] = 'UDP'
        self.pool['protocol'] = 'UDP'
        self.assertEqual(datapath.ServiceFlag.QUIC,
                         self.settings({'quic': True}).flags)

    def test_second_chance_applies_to_tcp_only(self):
        chance = {'encapsulation': 'gue', 'second_chance': True}
        listener = self.document['listeners']['listener']
        wanted = datapath.ServiceFlag.SECOND_CHANCE
        for protocol in ('TCP', 'HTTPS'):
            listener['protocol'] = self.pool['protocol'] = protocol
            self.assertEqual(wanted, self.settings(chance).flags)
        self.assertEqual(0, self.settings(
            {**chance, 'second_chance': False}).flags)
        self.assertEqual(0, self.settings({'encapsulation': 'gue'}).flags)
        for protocol in ('UDP', 'SCTP'):
            listener['protocol'] = self.pool['protocol'] = protocol
            self.assertEqual(0, self.settings(chance).flags)

    def test_clients_that_stay_with_a_member_have_no_second_chance(self):
        chance = {'encapsulation': 'gue', 'second_chance': True}
        source = datapath.ServiceFlag.SOURCE
        self.assertEqual(
            source, self.settings(chance, lb_algorithm='SOURCE_IP').flags)
        self.assertEqual(source, self.settings(
            chance, lb_algorithm='SOURCE_IP_PORT', session_persistence={
                'type': 'SOURCE_IP', 'persistence_timeout': None,
                'persistence_granularity': None}).flags)

    def test_algorithm_and_persistence_set_source_lengths(self):
        source = datapath.Settings(flags=datapath.ServiceFlag.SOURCE)
        self.assertEqual(source, self.settings(lb_algorithm='SOURCE_IP'))
        self.pool['lb_algorithm'] = 'SOURCE_IP_PORT'
        session = {'type': 'SOURCE_IP', 'persistence_timeout': None,
                   'persistence_granularity': None}
        self.assertEqual(source, self.settings(session_persistence=session))
        session.update(persistence_timeout=90,
                       persistence_granularity='255.255.255.0')
        self.assertEqual(
            source._replace(source_length_v4=24, idle_timeout_s=90),
            self.settings({'idle_timeout': 60}))
        session['persistence_granularity'] = 'ffff:ffff:ffff:ffff::'
        self.document['vip_address'] = '2001:db8:113::a'
        self.assertEqual(64, self.settings().source_length_v6)

    def test_unsupported_settings_are_refused(self):
        session = {'type': 'SOURCE_IP', 'persistence_timeout': None,
                   'persistence_granularity': None}
        for flavor, persistence, option, word in (
                ({'encapsulation': 'vxlan'}, None, 'flavor', 'vxlan'),
                ({'encapsulation': 'dscp', 'dscp': 64}, None, 'flavor', '64'),
                ({'encapsulation': 'gre', 'dscp': 5}, None, 'flavor', 'dscp'),
                ({'idle_timeout': 70000}, None, 'flavor', 'idle_timeout'),
                ({'new_flow_rate': -1}, None, 'flavor', 'new_flow_rate'),
                ({}, {'type': 'APP_COOKIE'}, 'session_persistence',
                 'their own view'),
                ({}, {'persistence_timeout': 70000}, 'persistence_timeout',
                 'at most 16000'),
                ({}, {'persistence_granularity': '255.0.255.0'},
                 'persistence_granularity', 'netmask')):
            self.document = base.document(flavor=flavor)
            if persistence:
                self.document['pools']['pool']['session_persistence'] = {
                    **session, **persistence}
            error = self.assertRaises(errors.Refused, self.plan)
            self.assertEqual(option, error.option.rpartition('.')[2])
            self.assertIn(word, str(error))
