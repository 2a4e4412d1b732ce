# SPDX-License-Identifier: Apache-2.0


from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import zone
from octavia_xdp_provider.tests.unit import base


class TestZone(base.TestCase):

    def test_each_key_has_a_type(self):
        self.assertEqual(zone.KEYS.keys(), fields.Zone.__annotations__.keys())

    def test_name_of_a_zone_is_printable_text(self):
        for name in ('east', 'Zürich 1', 'x' * 255):
            self.assertIsNone(zone.name_problem(name))
        for name in ('', 'x' * 256, 'a\nb', '\x1b[2J'):
            self.assertIn(repr(name), zone.name_problem(name)[0])

    def test_anything_else_is_named(self):
        for word, metadata in (
                ("'compute_zone'", {'compute_zone': 'x'}),
                ("'zone'", {'zone': ''}), ("'zone'", {'zone': 5}),
                ("'zone'", {'zone': 'x' * 256}), ("'zone'", {'zone': None}),
                ("'valid_vip_networks'", {'valid_vip_networks': []}),
                ("'valid_vip_networks'", {'valid_vip_networks': ['x']}),
                ("'valid_vip_networks'", {'valid_vip_networks': 'x'}),
                ('JSON', ['zone']), ('JSON', None)):
            problem = zone.problem(metadata)
            self.assertIsNotNone(problem, metadata)
            self.assertIn(word, ' '.join(problem))
            self.assertFalse(zone.PROFILE.accepts(metadata), metadata)
