# SPDX-License-Identifier: Apache-2.0

import jsonschema

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import zone
from octavia_xdp_provider.tests.unit import base


class TestFlavor(base.TestCase):

    def test_values_within_their_bounds_are_accepted(self):
        for metadata in (
                {}, {'replicas': 1}, {'replicas': 100},
                {'encapsulation': 'ipip'}, {'encapsulation': 'gue'},
                {'encapsulation': 'gre'},
                {'encapsulation': 'dscp', 'dscp': 1},
                {'encapsulation': 'dscp', 'dscp': 63},
                {'encapsulation': 'srv6'},
                {'encapsulation': 'srv6', 'srv6_function': 0},
                {'encapsulation': 'srv6', 'srv6_function': 65535},
                {'quic': True}, {'quic': False},
                {'spread': 'prefer'}, {'spread': 'require'},
                {'spread': 'off', 'forwarding': 'nat'},
                {'second_chance': False},
                {'connection_limit_reset': True},
                {'forwarding': 'tunnel'}, {'forwarding': 'nat'},
                {'forwarding': 'tunnel', 'encapsulation': 'gue'},
                {'forwarding': 'nat', 'quic': False, 'zero_touch': 'off',
                 'second_chance': False, 'replicas': 2, 'idle_timeout': 60,
                 'new_flow_rate': 5},
                {'second_chance': True, 'encapsulation': 'gue'},
                {'second_chance': True, 'encapsulation': 'geneve'},
                {'second_chance': True, 'encapsulation': 'srv6'},
                {'new_flow_rate': 0},
                {'new_flow_rate': 100, 'new_flow_burst': 1},
                {'idle_timeout': 10}, {'idle_timeout': 16000},
                {'member_port': 'same'}, {'member_port': 'rewrite'},
                {'replicas': 2, 'encapsulation': 'gue', 'quic': True,
                 'new_flow_rate': 5, 'idle_timeout': 60,
                 'member_port': 'rewrite'},
                {'proxy_connections': 900_000, 'proxy_threads': 64,
                 'proxy_memory': 64, 'proxy_stop_after': 86400},
                {'forwarding': 'nat', 'proxy_threads': 1}):
            self.assertIsNone(flavor.problem(metadata), metadata)
            self.assertTrue(flavor.PROFILE.accepts(metadata), metadata)

    def test_invalid_values_are_refused_by_key(self):
        dscp = {'encapsulation': 'dscp', 'dscp': 1}
        for key, metadata in (
                ('color', {'color': 'red'}),
                ('replicas', {'replicas': 0}),
                ('replicas', {'replicas': 'two'}),
                ('replicas', {'replicas': True}),
                ('replicas', {'replicas': 1.0}),
                ('encapsulation', {'encapsulation': 'vxlan'}),
                ('encapsulation', {'encapsulation': None}),
                ('encapsulation', {'encapsulation': ['gue']}),
                ('encapsulation', {'encapsulation': {}}),
                ('dscp', {'encapsulation': 'dscp'}),
                ('dscp', dict(dscp, dscp=0)),
                ('dscp', dict(dscp, dscp=64)),
                ('dscp', {'dscp': 5}),
                ('dscp', {'encapsulation': 'gue', 'dscp': 5}),
                ('srv6_function', {'srv6_function': 5}),
                ('srv6_function', dict(dscp, srv6_function=5)),
                ('srv6_function', {'encapsulation': 'srv6',
                                   'srv6_function': 65536}),
                ('srv6_function', {'encapsulation': 'srv6',
                                   'srv6_function': -1}),
                ('spread', {'spread': 'zones'}), ('spread', {'spread': True}),
                ('quic', {'quic': 1}), ('quic', {'quic': 'true'}),
                ('second_chance', {'second_chance': True}),
                ('second_chance', dict(dscp, second_chance=True)),
                ('second_chance', {'second_chance': True,
                                   'encapsulation': 'ipip'}),
                ('second_chance', {'second_chance': True,
                                   'encapsulation': 'gre'}),
                ('second_chance', {'second_chance': 'yes',
                                   'encapsulation': 'gue'}),
                ('new_flow_rate', {'new_flow_rate': -1}),
                ('new_flow_rate', {'new_flow_rate': flavor.RATE_MAX + 1}),
                ('new_flow_burst', {'new_flow_burst': 5}),
                ('new_flow_burst', {'new_flow_rate': 0,
                                    'new_flow_burst': 5}),
                ('new_flow_burst', {'new_flow_rate': 5,
                                    'new_flow_burst': 0}),
                ('idle_timeout', {'idle_timeout': 9}),
                ('idle_timeout', {'idle_timeout': 16001}),
                ('forwarding', {'forwarding': 'dnat'}),
                ('encapsulation', {'forwarding': 'nat',
                                   'encapsulation': 'ipip'}),
                ('dscp', {'forwarding': 'nat', 'dscp': 1}),
                ('srv6_function', {'forwarding': 'nat', 'srv6_function': 0}),
                ('member_port', {'forwarding': 'nat',
                                 'member_port': 'same'}),
                ('quic', {'forwarding': 'nat', 'quic': True}),
                ('second_chance', {'forwarding': 'nat',
                                   'second_chance': True}),
                ('zero_touch', {'forwarding': 'nat',
                                'zero_touch': 'preferred'}),
                ('zero_touch', {'forwarding': 'nat',
                                'zero_touch': 'required'}),
                ('member_port', {'member_port': 8080}),
                ('proxy_connections', {'proxy_connections': 900_001}),
                ('proxy_threads', {'proxy_threads': 0}),
                ('proxy_memory', {'proxy_memory': 63}),
                ('proxy_stop_after', {'proxy_stop_after': '60'})):
            problem = flavor.problem(metadata)
            self.assertIsNotNone(problem, metadata)
            self.assertIn(f'key {key!r}', problem[0])
            self.assertTrue(problem[1])
            self.assertFalse(flavor.PROFILE.accepts(metadata), metadata)

    def test_schema_is_one_and_describes_each_key(self):
        for profile in (flavor.PROFILE, zone.PROFILE):
            jsonschema.Draft202012Validator.check_schema(profile.schema)
            self.assertIs(False, profile.schema['additionalProperties'])
            for key, entry in profile.schema['properties'].items():
                self.assertTrue(entry['description'], key)

    def test_each_key_has_a_type(self):
        self.assertEqual(flavor.KEYS.keys(),
                         fields.Flavor.__annotations__.keys())

    def test_values_that_are_no_object_are_refused(self):
        for metadata in ([], ['quic'], 'quic', 5, None):
            self.assertIn('no keys', flavor.problem(metadata)[0])

    def test_omitted_key_has_its_default(self):
        self.assertEqual(
            {'replicas': None, 'spread': None, 'forwarding': 'tunnel',
             'encapsulation': 'ipip', 'dscp': None,
             'srv6_function': 0, 'quic': False, 'second_chance': False,
             'new_flow_rate': 0,
             'new_flow_burst': None, 'connection_limit_reset': False,
             'idle_timeout': 350,
             'member_port': 'same', 'algorithms_served_by_hash': (),
             'zero_touch': 'off', 'proxy_connections': None,
             'proxy_threads': None, 'proxy_memory': None,
             'proxy_stop_after': None},
            {key: flavor.value({}, key) for key in flavor.KEYS})
        for key, spec in flavor.KEYS.items():
            if spec.default not in (None, ()):
                self.assertIsNone(
                    flavor.PROFILE.problem({key: spec.default}), key)

    def test_descriptions_name_values_and_default(self):
        for key, spec in flavor.KEYS.items():
            text = flavor.description(key)
            self.assertIn(spec.values, text)
            self.assertIn('Default: ', text)
        self.assertIn('Default: false.', flavor.description('quic'))
        self.assertIn('Default: ipip.', flavor.description('encapsulation'))


class TestDefaults(base.TestCase):
    """The operator's defaults for keys that flavors leave out."""

    def test_flavor_overrides_the_defaults(self):
        defaults = {'member_port': 'rewrite', 'replicas': 4}
        self.assertEqual({'member_port': 'same', 'replicas': 4},
                         flavor.with_defaults({'member_port': 'same'},
                                              defaults))
        self.assertEqual(defaults, flavor.with_defaults({}, defaults))
        self.assertEqual({'quic': True},
                         flavor.with_defaults({'quic': True}, {}))

    def test_defaults_of_the_other_forwarding_have_no_part(self):
        tunnels = {'encapsulation': 'gue', 'member_port': 'rewrite',
                   'quic': True, 'zero_touch': 'required', 'replicas': 4}
        self.assertEqual(
            {'forwarding': 'nat', 'replicas': 4},
            flavor.with_defaults({'forwarding': 'nat'}, tunnels))
        nat = {'forwarding': 'nat', 'replicas': 4}
        self.assertEqual(nat, flavor.with_defaults({}, nat))
        self.assertEqual({**nat, 'quic': False},
                         flavor.with_defaults({'quic': False}, nat))
        for metadata in ({'encapsulation': 'gue'}, {'quic': True},
                         {'zero_touch': 'preferred'},
                         {'forwarding': 'tunnel', 'member_port': 'same'}):
            merged = flavor.with_defaults(metadata, nat)
            self.assertIsNone(flavor.problem(merged), merged)
            self.assertFalse(flavor.is_nat(merged))

    def test_flavors_go_together_with_defaults_for_others(self):
        defaults = {'encapsulation': 'gue', 'new_flow_rate': 100,
                    'new_flow_burst': 200}
        for metadata in ({}, {'encapsulation': 'dscp', 'dscp': 5},
                         {'encapsulation': 'srv6', 'srv6_function': 5},
                         {'new_flow_rate': 0}, {'new_flow_rate': 50}):
            self.assertIsNone(flavor.problem(metadata))
            self.assertIsNone(flavor.problem(
                flavor.with_defaults(metadata, defaults)), metadata)

    def test_descriptions_show_them(self):
        self.assertIn('Default: same.', flavor.description('member_port'))
        self.assertIn('Default: rewrite.', flavor.description(
            'member_port', {'member_port': 'rewrite'}))
        self.assertIn('["ROUND_ROBIN"]', flavor.description(
            'algorithms_served_by_hash',
            {'algorithms_served_by_hash': ['ROUND_ROBIN']}))

    def test_algorithms_are_a_list_of_those_that_can_be_served(self):
        for good in ([], ['ROUND_ROBIN'],
                     ['LEAST_CONNECTIONS', 'ROUND_ROBIN']):
            self.assertIsNone(flavor.problem(
                {'algorithms_served_by_hash': good}))
        for bad in ('ROUND_ROBIN', ['SOURCE_IP'], [['ROUND_ROBIN']], {}, 1):
            self.assertIsNotNone(flavor.problem(
                {'algorithms_served_by_hash': bad}), bad)
