# SPDX-License-Identifier: Apache-2.0
"""Settings of the datapath on a hypervisor, and refusals by option name."""

import pathlib
import re

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.host import library
from octavia_xdp_provider.host import links
from octavia_xdp_provider.host import settings
from octavia_xdp_provider.tests.unit import base

INCLUDE = pathlib.Path(__file__).parents[4] / 'datapath/include'
KERNEL = links.Snapshot(
    {'eth0': links.Link(2, 'eth0', 1500), 'eth1': links.Link(3, 'eth1', 9000)},
    {(2, 4): '192.0.2.1', (2, 6): '2001:db8::1'})


class TestSettings(base.TestCase):

    def find(self, *lines):
        return settings.find(
            self.load('\n'.join(('[host_agent]', *lines))), KERNEL)

    def test_defaults_are_the_first_interfaces(self):
        actual = self.find()
        self.assertEqual(((2,), 1500, ()), (actual.underlay, actual.mtu,
                                            actual.problems))
        self.assertEqual(['192.0.2.1', '2001:db8::1'], actual.geneve)
        self.assertEqual((2, None), (actual.datapath.reply_ifindex,
                                     actual.datapath.sid))

    def test_options_are_preferred_to_what_is_found(self):
        actual = self.find('underlay_interfaces = eth1,eth0',
                           'reply_interface = eth1', 'encapsulations = srv6',
                           'sid_prefix = 2001:db8:1:2:3:4::/96')
        self.assertEqual(((3, 2), 1500, ()), (actual.underlay, actual.mtu,
                                              actual.problems))
        self.assertEqual(([], 3, '2001:db8:1:2:3:4::'), (
            actual.geneve, actual.datapath.reply_ifindex, actual.datapath.sid))

    def test_library_is_what_is_built(self):
        layout = re.search(r'#define HOST_LAYOUT (\d+)', (
            INCLUDE / 'host.h').read_text())[1]
        version = re.search(r'#define OXH_API_VERSION (\d+)', (
            INCLUDE / 'octavia_xdp_host.h').read_text())[1]
        name = f'liboctavia_xdp_host.so.{layout}'
        self.assertEqual(name, library.LIBRARY)
        self.assertEqual(name, self.load('').host_agent.library)
        self.assertEqual(int(version), library.API_VERSION)

    def test_missing_objects_are_named(self):
        actual = self.find('underlay_interfaces = eth0,bond7',
                           'reply_interface = vrf9')
        self.assertEqual((2,), actual.underlay)
        self.assertEqual(0, actual.datapath.reply_ifindex)
        self.assertIn('bond7', actual.problems[0])
        self.assertIn('reply_interface', actual.problems[1])
        actual = self.find('encapsulations = srv6')
        self.assertIn('sid_prefix', actual.problems[0])

    def test_bad_values_name_their_option(self):
        for line, name in (('sid_prefix = 2001:db8::/64', 'sid_prefix'),
                           ('sid_prefix = 192.0.2.0/24', 'sid_prefix'),
                           ('local_address = ::1', 'local_address'),
                           ('local_address_v6 = 192.0.2.1',
                            'local_address_v6'),
                           ('underlay_interfaces =', 'underlay_interfaces'),
                           ('encapsulations = gre', 'encapsulations'),
                           ('listen = here', 'listen')):
            error = self.assertRaises(option_values.ConfigurationError,
                                      self.find, line)
            self.assertIn(name, str(error))
