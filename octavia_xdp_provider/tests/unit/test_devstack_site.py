# SPDX-License-Identifier: Apache-2.0
"""How lab.devstack uses DevStack's variables."""

import ipaddress
import pathlib

import fixtures

from lab import namespaces
from lab import paths
from lab.devstack import control
from lab.devstack import hypervisor
from lab.devstack import services
from lab.devstack import site as sites
from lab.devstack import tunnels
from lab.fabric import links
from octavia_xdp_provider.config import options
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.tests.unit import base

COMPUTES = 'compute1=192.0.2.11 compute2=192.0.2.12'
COMPUTE = {'OCTAVIA_XDP_ROLE': 'node', 'OCTAVIA_XDP_HYPERVISOR': 'compute2',
           'OCTAVIA_XDP_HYPERVISORS': COMPUTES,
           'OCTAVIA_XDP_ROUTER_HOST': '192.0.2.1'}


class TestSite(base.TestCase):
    """Variables in Python."""

    VARIABLES = {
        'OCTAVIA_XDP_ROLE': 'all', 'OCTAVIA_XDP_NODES': 'lb1 lb2',
        'OCTAVIA_XDP_LAB': 'test', 'OCTAVIA_XDP_USER': 'stack',
        'OCTAVIA_XDP_PASSWORD': 'secret', 'OCTAVIA_XDP_CONF': '/etc/x.conf',
        'OCTAVIA_XDP_BIN_DIR': '/usr/bin', 'OCTAVIA_XDP_HC': '/opt/hc',
        'OCTAVIA_XDP_TRANSPORT_URL': 'rabbit://u:p@192.0.2.1:5672/',
        'OCTAVIA_XDP_VM_NETWORKS': '10.0.0.0/8',
    }

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            paths.Lab, 'host_directory', autospec=True,
            side_effect=lambda lab, host: pathlib.Path('/lab') / host))

    def site(self, **variables):
        site = sites.Site({**self.VARIABLES, **variables})
        site.check()
        return site

    def test_invalid_variables_are_refused_by_name(self):
        node = {'ROLE': 'node', 'ROUTER_HOST': '192.0.2.1'}
        own = {'HYPERVISORS': COMPUTES, 'HOST_ADDRESS': '192.0.2.11'}
        for text, variables in (
                ('OCTAVIA_XDP_ROLE=both', {'ROLE': 'both'}),
                ("'node1'", {'NODES': 'node1'}),
                ('lb60', {'NODES': 'lb61'}),
                ('is repeated', {'NODES': 'lb1 lb1'}),
                ('is repeated', {'REMOTE_NODES': 'lb1=192.0.2.7'}),
                ("'lb3' has no address", {'REMOTE_NODES': 'lb3'}),
                ('OCTAVIA_XDP_ROUTER_HOST', {'ROLE': 'node'}),
                ('lb3 is repeated',
                 {'REMOTE_NODES': 'lb3=192.0.2.7 lb3=192.0.2.8'}),
                ('OCTAVIA_XDP_NODES is empty', {'NODES': ''}),
                ('OCTAVIA_XDP_NODES is empty',
                 {'NODES': '', 'HYPERVISOR': 'compute1'}),
                ('OCTAVIA_XDP_NODES is empty', {'NODES': '', **node}),
                ("'a b' is no valid name", {'HYPERVISOR': 'a b'}),
                ("'a;b' is no valid name", {'HYPERVISORS': 'a;b=192.0.2.7'}),
                ("'compute2' has no address", {'HYPERVISORS': 'compute2'}),
                ("'compute2=' has no address", {'HYPERVISORS': 'compute2='}),
                ('c is repeated',
                 {'HYPERVISORS': 'c=192.0.2.7 c=192.0.2.8'}),
                ('has 61 hosts', {'HYPERVISORS': ' '.join(
                    f'c{number}=192.0.2.7' for number in range(61))}),
                ('does not name this host, compute2',
                 {'HYPERVISOR': 'compute2',
                  'HYPERVISORS': 'compute1=192.0.2.11'}),
                ('does not name this host, compute2',
                 {'HYPERVISOR': 'compute2', **node}),
                ('set OCTAVIA_XDP_HYPERVISOR=compute1', own)):
            error = self.assertRaises(paths.LabError, self.site, **{
                f'OCTAVIA_XDP_{name}': value
                for name, value in variables.items()})
            self.assertIn(text, str(error))

    def test_host_with_its_own_address_and_name_is_accepted(self):
        self.site(OCTAVIA_XDP_HYPERVISOR='compute1',
                  OCTAVIA_XDP_HYPERVISORS=COMPUTES,
                  OCTAVIA_XDP_HOST_ADDRESS='192.0.2.11')

    def test_transport_url_has_password_and_virtual_host_of_node(self):
        password = self.site().password('octavia-xdp-node-lb1')
        self.assertEqual(
            f'rabbit://octavia-xdp-node-lb1:{password}@192.0.2.1:5672/v',
            self.site().transport_url('octavia-xdp-node-lb1', 'v'))

    def test_all_hosts_derive_the_same_password(self):
        self.assertEqual(
            self.site().password('a'),
            self.site(OCTAVIA_XDP_ROLE='node', OCTAVIA_XDP_NODES='lb3',
                      OCTAVIA_XDP_ROUTER_HOST='192.0.2.1').password('a'))
        self.assertNotEqual(self.site().password('a'),
                            self.site().password('b'))

    def test_broker_knows_nodes_of_other_hosts(self):
        definitions = control.definitions(self.site(
            OCTAVIA_XDP_REMOTE_NODES='lb3=192.0.2.7'))
        self.assertEqual(
            {'octavia-xdp', 'octavia-xdp-node-lb1', 'octavia-xdp-node-lb2',
             'octavia-xdp-node-lb3'},
            {vhost['name'] for vhost in definitions['vhosts']})

    def test_all_definitions_of_the_broker_are_removed(self):
        site = self.site(OCTAVIA_XDP_REMOTE_NODES='lb3=192.0.2.7',
                         OCTAVIA_XDP_HYPERVISOR='compute1',
                         OCTAVIA_XDP_HYPERVISORS=COMPUTES)
        self.assertLess({broker.host_vhost('compute1'),
                         broker.host_vhost('compute2')}, {
            vhost['name'] for vhost in control.definitions(site)['vhosts']})
        made, removals = control.definitions(site), control.removals(site)
        self.assertEqual(
            {('delete_user', user['name']) for user in made['users']}
            | {('delete_vhost', vhost['name']) for vhost in made['vhosts']},
            {tuple(words) for words in removals})

    def test_services_are_those_that_settings_enable(self):
        commands = services.commands(self.site())
        self.assertEqual(
            ['o-xdp-ctl', *(f'o-xdp-{kind}-{node}'
                            for node in ('lb1', 'lb2')
                            for kind in ('agent', 'handler', 'hc',
                                         'exabgp'))],
            [name for name, _user, _command in commands])
        for name, _user, command in commands:
            self.assertTrue(command.startswith('/'), name)
            # DevStack's run_process takes these for something else.
            self.assertNotIn('sudo', command)
            self.assertNotIn('uwsgi', command)

    def test_agent_of_hypervisor_accepts_its_configuration(self):
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'conf')
        self.useFixture(fixtures.MockPatchObject(
            hypervisor, '_configuration', lambda site: path))
        site = self.site(
            OCTAVIA_XDP_NODES='lb1', OCTAVIA_XDP_HYPERVISOR='compute1',
            OCTAVIA_XDP_DEBUG='True', OCTAVIA_XDP_OVSDB='unix:/no/db.sock')
        hypervisor.configure(site)
        *_, (name, user, command) = services.commands(site)
        self.assertEqual(('o-xdp-host', 'root'), (name, user))
        conf = options.load(config_files=[command.split()[-1]])
        self.assertEqual('compute1', conf.host)
        self.assertIn(f'@192.0.2.1:5672/{broker.host_vhost("compute1")}\n',
                      path.read_text())
        self.assertEqual(
            ([hypervisor.interface(site)], 'unix:/no/db.sock'),
            (conf.host_agent.underlay_interfaces, conf.host_agent.ovsdb))
        # Names of interfaces have 15 characters.
        self.assertLess(len(hypervisor.interface(site)), 16)
        self.assertIn(broker.host_vhost('compute1'), {
            vhost['name'] for vhost in control.definitions(site)['vhosts']})

    def test_cable_determines_the_ends_of_tunnels(self):
        self.assertEqual({}, hypervisor.controller_options(self.site()))
        self.assertEqual({}, hypervisor.node_options(self.site()))
        for variables in (
                {'OCTAVIA_XDP_HYPERVISOR': 'compute1'},
                {'OCTAVIA_XDP_HYPERVISORS': COMPUTES},
                {**COMPUTE, 'OCTAVIA_XDP_NODES': 'lb3'}):
            site = self.site(**variables)
            self.assertTrue(hypervisor.node_options(site))
            self.assertEqual('10.0.0.0/8', hypervisor.controller_options(
                site)['zero_touch']['member_networks'])
            networks = hypervisor.controller_options(site)['zero_touch'][
                'host_networks'].split(',')
            for network, version in zip(networks, (4, 6), strict=True):
                self.assertIn(
                    ipaddress.ip_address(paths.hypervisor_address(
                        sites.HYPERVISORS_MAX, version)),
                    ipaddress.ip_network(network))

    def test_host_with_vms_only_has_one_service(self):
        self.assertEqual(['o-xdp-host'], [
            name for name, _user, _command in services.commands(
                self.site(**COMPUTE, OCTAVIA_XDP_NODES=''))])

    def commands_of(self, function, site):
        """Return the arguments of ip(8) in the host's own namespace."""
        commands = []
        self.useFixture(fixtures.MockPatchObject(
            tunnels, 'ip', lambda lab, *words: commands.append(
                ' '.join(map(str, words)))))
        for name in 'bridge', 'address', 'join_bridge', 'up':
            self.useFixture(fixtures.MockPatchObject(namespaces, name))
        self.useFixture(fixtures.MockPatchObject(links, 'set_mtu'))
        function(site)
        return commands

    def test_both_ends_of_a_tunnel_have_its_number(self):
        addresses = {'OCTAVIA_XDP_HYPERVISORS': COMPUTES}
        first = self.commands_of(hypervisor.make_switch, self.site(
            **addresses, OCTAVIA_XDP_HYPERVISOR='compute1',
            OCTAVIA_XDP_HOST_ADDRESS='192.0.2.11'))
        second = self.commands_of(hypervisor.extend, self.site(
            **COMPUTE, OCTAVIA_XDP_NODES='',
            OCTAVIA_XDP_HOST_ADDRESS='192.0.2.12'))
        for commands, name, own, other in (
                (first, 'hv2 netns', '192.0.2.11', '192.0.2.12'),
                (second, 'oxp-', '192.0.2.12', '192.0.2.1')):
            tunnel, = (command for command in commands if 'vxlan' in command)
            self.assertIn(f'link add {name}', tunnel)
            self.assertIn(f'id 4302 remote {other} local {own} ', tunnel)
        for commands, number in (first, 1), (second, 2):
            own = paths.hypervisor_address(number)
            self.assertEqual(1, sum(
                command.startswith(f'-4 address add {own}/')
                for command in commands), commands)

    def test_driver_is_added_once_and_removed_without_others(self):
        added = 'xdp:Layer-4 load balancing in XDP'
        self.assertEqual(added, control.enabled_drivers(''))
        for before in ('amphora:A', f'amphora:A,{added}'):
            self.assertEqual(f'amphora:A,{added}',
                             control.enabled_drivers(before))
            self.assertEqual('amphora:A', control.disabled_drivers(before))
