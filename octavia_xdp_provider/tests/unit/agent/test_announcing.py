# SPDX-License-Identifier: Apache-2.0
"""With which attributes VIPs are announced, usually and as a last resort."""

import fixtures

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling

GRACEFUL_SHUTDOWN = '65535:0'


class TestAttributes(reconciling.ReconcilerTestCase):

    OPTIONS = ''

    def setUp(self):
        super().setUp()
        self.unmonitored()
        self.other = dict(base.document(vip_address='203.0.113.11'),
                          id='other')
        self.other['pools']['pool']['healthmonitor'] = None

    def configure(self, options):
        self.conf = self.load(f'[agent]\nwithdraw_grace = 0\n[bgp]\n'
                              f'{options}\n')
        self.reconciler = self.make(self.conf)

    def drain(self, *ids):
        """A pass in which these load balancers are drained."""
        self.events.clear()
        self.reconciler.reconcile(self.wanted(
            self.document, self.other)._replace(draining=frozenset(ids)),
            reconciling.BOTH)
        return {str(route.prefix.network_address): route.attributes()
                for route in self.announce.wanted().values()}

    def test_only_what_is_drained_has_the_community(self):
        self.assertEqual({base.VIP: {}, '203.0.113.11': {}}, self.drain())
        self.assertEqual(
            {base.VIP: {'communities': (GRACEFUL_SHUTDOWN,)},
             '203.0.113.11': {}}, self.drain('lb'))
        self.assertEqual({base.VIP: {}, '203.0.113.11': {}}, self.drain())

    def test_log_names_added_and_removed_prefixes_only(self):
        self.run_pass(self.document)
        log = self.useFixture(fixtures.FakeLogger())
        self.run_pass(self.document, self.other)
        self.assertIn('Announcing 2 prefixes: added 203.0.113.11, removed '
                      'none.', log.output)

    def test_new_agent_keeps_attributes_until_its_first_pass(self):
        self.drain('lb')
        before = self.announce.wanted()
        self.reconciler = self.make(self.conf)
        self.reconciler.announce(frozenset())
        self.assertEqual(before, self.announce.wanted())
        self.assertEqual({base.VIP: {}, '203.0.113.11': {}}, self.drain())

    def test_options_name_what_is_sent(self):
        self.configure(
            'communities = 65000:1, no-export\nlarge_communities = 1:2:3\n'
            'med = 5\nlocal_preference = 150\n'
            'drain_communities = graceful-shutdown, 65000:9\n'
            'drain_med = 1000\ndrain_local_preference = 0\n'
            'drain_as_path_prepend = 3')
        usual = {'communities': ('65000:1', '65535:65281'),
                 'large_communities': ('1:2:3',), 'med': 5,
                 'local_preference': 150}
        self.assertEqual(
            {base.VIP: {**usual, 'med': 1000, 'local_preference': 0,
                        'as_path_prepend': 3, 'communities': (
                            '65000:1', '65000:9', '65535:0',
                            '65535:65281')},
             '203.0.113.11': usual}, self.drain('lb'))

    def test_drained_vip_keeps_usual_attributes_by_default(self):
        self.configure('med = 5\ndrain_communities =')
        self.assertEqual({base.VIP: {'med': 5}, '203.0.113.11': {'med': 5}},
                         self.drain('lb'))

    def test_changed_options_are_announced_without_another_change(self):
        self.drain('lb')
        self.conf.set_override('drain_med', 7, group='bgp')
        self.reconciler.announce(reconciling.BOTH)
        meds = {str(route.prefix.network_address): route.med
                for route in self.announce.wanted().values()}
        self.assertEqual({base.VIP: 7, '203.0.113.11': None}, meds)


class TestOptions(base.TestCase):

    def test_values_that_bgp_cannot_carry_are_refused_by_name(self):
        for name, value in (
                ('communities', '65536:1'), ('communities', 'nonsense'),
                ('drain_communities', '1:2:3'),
                ('large_communities', '1:2'), ('large_communities', '1:2:x'),
                ('communities', ','.join(f'1:{n}' for n in range(32)))):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                f'[bgp]\n{name} = {value}\n')
            self.assertIn(f'[bgp] {name}', str(error))
