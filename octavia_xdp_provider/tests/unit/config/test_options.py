# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.config import node_options
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.tests.unit import base


class TestOptions(base.TestCase):

    def test_defaults_allow_no_vip(self):
        conf = self.load()
        self.assertEqual([], option_values.networks(
            conf, 'vip', 'allowed_networks'))

    def test_bad_network_is_refused_with_its_option(self):
        error = self.assertRaises(
            option_values.ConfigurationError, self.load,
            '[vip]\nallowed_networks = 203.0.113.0/33\n')
        self.assertIn('[vip] allowed_networks', str(error))

    def test_vips_are_on_named_networks_or_on_any(self):
        self.load('[vip]\nany_network = true\n')
        for name in ('subnet_ids', 'network_ids'):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                '[vip]\nany_network = true\n'
                f'{name} = 8f0e0d3c-64a1-4b6e-9a55-0d9a4a1e7c11\n')
            self.assertIn(f'[vip] {name}', str(error))

    def test_files_that_cannot_be_read_are_named(self):
        error = self.assertRaises(
            option_values.ConfigurationError, options.load,
            config_files=['/nowhere/octavia-xdp.conf'])
        self.assertIn('/nowhere/octavia-xdp.conf', str(error))
        self.assertRaises(option_values.ConfigurationError, self.load,
                          '[vip\n')

    def test_values_of_another_type_are_named(self):
        for section, text, name in (
                ('datapath', 'slots = many', 'slots'),
                ('datapath', 'services_max = -4', 'services_max'),
                ('placement', 'replicas = 0', 'replicas')):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                f'[{section}]\n{text}\n')
            self.assertIn(f'[{section}] {name}', str(error))

    def test_host_bits_are_refused(self):
        self.assertRaises(option_values.ConfigurationError, self.load,
                          '[members]\ndenied_networks = 10.0.0.1/8\n')

    def test_listening_address_has_address_and_port(self):
        for text, wanted in (('127.0.0.1:9106', ('127.0.0.1', 9106)),
                             ('[::1]:80', ('::1', 80)), ('', None)):
            conf = self.load(f'[agent]\nresult_handler_metrics = {text}\n')
            self.assertEqual(wanted, option_values.listening_address(
                conf, 'agent', 'result_handler_metrics'))
        for text in ('9106', ':9106', '127.0.0.1', '127.0.0.1:0',
                     '::1:80', '[127.0.0.1]:80', '127.0.0.1:65536', 'a:1'):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                f'[agent]\nresult_handler_metrics = {text}\n')
            self.assertIn('result_handler_metrics', str(error))

    def test_gateways_are_by_interface_and_family(self):
        conf = self.load('[agent]\nuplinks = eth0, eth1.100\ngateways = '
                         'eth0=198.51.100.1, eth0=fe80::1, '
                         'eth1.100=2001:db8::1\n')
        self.assertEqual(
            {('eth0', 4): '198.51.100.1', ('eth0', 6): 'fe80::1',
             ('eth1.100', 6): '2001:db8::1'}, node_options.gateways(conf))

    def test_unusable_options_of_nodes_are_refused(self):
        for section, text, name in (
                ('agent', 'uplinks =', 'uplinks'),
                ('agent', 'uplinks = a,b,c,d,e,f,g,h,i', 'uplinks'),
                ('agent', 'uplinks = a, a', 'uplinks'),
                ('agent', 'gateways = eth0', 'gateways'),
                ('agent', 'gateways = eth1=198.51.100.1', 'gateways'),
                ('agent', 'gateways = eth0=::', 'gateways'),
                ('agent', 'gateways = eth0=198.51.100.1, '
                          'eth0=198.51.100.2', 'gateways'),
                ('agent', 'outer_source = 2001:db8::1', 'outer_source'),
                ('agent', 'outer_source_v6 = 192.0.2.1', 'outer_source_v6'),
                ('agent', 'outer_source = 192.0.2', 'outer_source'),
                ('agent', 'outer_entropy = 4', 'outer_entropy'),
                ('agent', 'outer_entropy = 4\nouter_source = 192.0.2.8',
                 'outer_source'),
                ('agent', 'next_hop_v6 = 192.0.2.1', 'next_hop_v6'),
                ('datapath', 'flows_max = 5000', 'flows_max'),
                ('proxy', 'number_min = 60500', 'number_min'),
                ('proxy', 'number_min = 65519', 'number_min'),
                ('proxy', 'number_max = 69999', 'number_max'),
                ('proxy', 'namespace = a/b', 'namespace'),
                ('proxy', 'namespace = ..', 'namespace'),
                ('proxy', 'haproxy = haproxy', 'haproxy'),
                ('datapath', 'member_mtu = 1000', 'member_mtu')):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                f'[{section}]\n{text}\n')
            self.assertIn(f'[{section}] {name}: ', str(error))
        self.load('[agent]\nouter_entropy = 4\nouter_source = 192.0.2.16\n')

    def test_two_configurations_are_independent(self):
        first = self.load('[DEFAULT]\nhost = a\n')
        two = self.load('[DEFAULT]\nhost = b\n')
        self.assertEqual(('a', 'b'), (first.host, two.host))

    def test_every_option_has_help(self):
        for _, group in options.list_options():
            for option in group:
                self.assertTrue(option.help, option.name)
