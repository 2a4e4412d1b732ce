# SPDX-License-Identifier: Apache-2.0
"""DevStack's plugin: its files agree, and each phase makes the right calls.

All phases on real servers are in lab/devstack/trial.py.
"""

import ipaddress
import json
import os
import pathlib
import re
import subprocess

import fixtures

import lab
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

ROOT = pathlib.Path(lab.__file__).parent.parent
PLUGIN = ROOT / 'devstack'
FUNCTIONS = PLUGIN / 'tests' / 'functions.sh'
CONTRACT = json.loads((PLUGIN / 'tests' / 'contract.json').read_text())
# Of bindep.txt, what DevStack's own services bring, or a lab alone needs.
NOT_ITS_OWN = {'mariadb-server', 'rabbitmq-server', 'postgresql',
               'tcpdump', 'frr'}

# Instead of lab.devstack: prints what it was called with.
_PYTHON = """\
#!/bin/sh
echo "python $*" >> "$HARNESS_RECORD"
case "$3" in
services) printf 'o-xdp-ctl\\tstack\\t/bin/true --of "a b"\\n' ;;
tempest) printf 'load_balancer\\tprovider\\txdp\\n' ;;
drivers*) echo "value of $3" ;;
broker-removals) printf 'delete_user a\\ndelete_vhost b\\n' ;;
esac
"""


def _defined(path):
    return set(re.findall(r'^function (\w+) {$', path.read_text(),
                          re.MULTILINE))


class TestFiles(base.TestCase):

    def test_stand_ins_are_the_functions_of_the_contract(self):
        self.assertEqual(
            {function['name'] for function in CONTRACT['functions']},
            {name for name in _defined(FUNCTIONS) if 'harness' not in name}
            - {'sudo'})

    def test_each_function_of_the_contract_is_used_and_has_a_source(self):
        text = ''.join((PLUGIN / name).read_text() for name in (
            'plugin.sh', 'settings', 'override-defaults'))
        for function in CONTRACT['functions']:
            self.assertRegex(text, rf'\b{function["name"]}\b')
            self.assertTrue(function['signature'].startswith(
                function['name']))
            self.assertTrue(function['source'] and function['effect'])

    def test_settings_are_documented(self):
        lines = (PLUGIN / 'settings').read_text().splitlines()
        page = (ROOT / 'doc/source/install/devstack.rst').read_text()
        names = set()
        for number, line in enumerate(lines):
            if match := re.match(r' *(OCTAVIA_XDP_\w+)=', line):
                names.add(match[1])
                above = number - 1
                while lines[above] and not lines[above].startswith('#'):
                    above -= 1
                self.assertTrue(lines[above].startswith('#'), line)
        for name in names:
            self.assertIn(name, page)

    def test_packages_are_those_of_bindep(self):
        wanted = set()
        for line in (ROOT / 'bindep.txt').read_text().splitlines():
            if not line or line.startswith('#'):
                continue
            name, profiles = line.split(' ', 1)
            profiles = set(profiles.strip('[]').split()) - {'platform:dpkg'}
            if not profiles or profiles & {'compile', 'lab'}:
                wanted.add(name)
        listed = (PLUGIN / 'files/debs/octavia-xdp-provider').read_text()
        self.assertEqual(wanted - NOT_ITS_OWN, set(listed.split()))

    def test_samples_set_variables_of_the_plugin(self):
        known = (PLUGIN / 'settings').read_text()
        for path in (PLUGIN / 'samples').iterdir():
            text = path.read_text()
            self.assertIn('[[local|localrc]]', text)
            self.assertIn('enable_plugin octavia-xdp-provider ', text)
            for name in re.findall(r'OCTAVIA_XDP_\w+', text):
                self.assertIn(f'{name}=', known)


class TestPhases(base.TestCase):
    """Each phase with everything but the shell replaced."""

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)
        self.bin = self.directory / 'bin'
        self.bin.mkdir()
        record = self.directory / 'record'
        self.environment = {
            'PATH': f'{self.bin}:{os.environ["PATH"]}',
            'HARNESS_RECORD': str(record),
            'HARNESS_UNITS': str(self.directory),
            'HARNESS_BIN_DIR': str(self.bin),
            'HARNESS_TRANSPORT_URL': 'rabbit://u:p@192.0.2.1:5672/',
            'HARNESS_DATABASE_URL': 'sqlite:///DATABASE',
            'DEST': '/nonexistent', 'ENABLED_SERVICES': 'rabbit,tempest',
            'HOST_IP': '192.0.2.1', 'SERVICE_HOST': '192.0.2.1',
            'STACK_USER': 'stack', 'SERVICE_PASSWORD': 'secret',
            'TEMPEST_CONFIG': str(self.directory / 'tempest.conf'),
            'OCTAVIA_CONF': str(self.directory / 'octavia.conf'),
            'OCTAVIA_XDP_CONF': str(self.directory / 'etc' / 'xdp.conf'),
            'OCTAVIA_XDP_RABBITMQCTL': 'rabbitmqctl',
        }
        (self.directory / 'octavia.conf').touch()
        self.record = record
        self.command('python3', _PYTHON)
        self.command('chown', '#!/bin/sh\n')
        for name in ('make', 'cargo', 'rabbitmqctl', 'octavia-xdp-manage'):
            self.command(name, '#!/bin/sh\n'
                         f'echo "{name} $*" >> "$HARNESS_RECORD"\n')

    def command(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def phase(self, *words, status=0, **variables):
        """Return the calls in a phase, without those of settings."""
        self.record.unlink(missing_ok=True)
        # The functions that use Python for real are not of interest here.
        script = (f'set -o errexit -o pipefail\nsource {FUNCTIONS}\n'
                  'function _harness_python { cat > /dev/null; }\n'
                  f'harness_phase {PLUGIN} {" ".join(words)}\nwait\n')
        done = subprocess.run(
            ['/bin/bash', '-c', script], text=True, capture_output=True,
            env={**self.environment, **variables}, timeout=120)
        self.assertEqual(status, done.returncode, done.stderr)
        self.output = done.stdout + done.stderr
        return [line for line in self.record.read_text().splitlines()
                if not line.startswith(('enable_service', 'echo_summary',
                                        'define_plugin', 'plugin_requires'))]

    def test_source_enables_services(self):
        self.assertEqual([], self.phase('source'))
        self.assertEqual(
            'enable_service o-xdp o-xdp-ctl o-xdp-agent-lb1 '
            'o-xdp-handler-lb1 o-xdp-hc-lb1 o-xdp-exabgp-lb1 '
            'o-xdp-agent-lb2 o-xdp-handler-lb2 o-xdp-hc-lb2 '
            'o-xdp-exabgp-lb2', self.record.read_text().splitlines()[-1])

    def test_source_enables_the_agent_of_a_hypervisor(self):
        self.phase('source', OCTAVIA_XDP_HYPERVISOR='compute1')
        self.assertEqual('o-xdp-host', self.record.read_text().split()[-1])

    def test_host_with_vms_only_needs_no_checker(self):
        host = {**COMPUTE, 'OCTAVIA_XDP_NODES': '', 'ENABLED_SERVICES': ''}
        self.phase('source', **host)
        self.assertEqual('enable_service o-xdp o-xdp-host',
                         self.record.read_text().splitlines()[-1])
        self.assertEqual([
            f'setup_develop {ROOT}', f'make -C {ROOT}/datapath all',
            'python -m lab.devstack check',
        ], self.phase('stack', 'install', **host))

    def test_pre_install_refuses_a_host_without_a_broker(self):
        self.phase('stack', 'pre-install', status=1, ENABLED_SERVICES='')
        self.assertIn('needs RabbitMQ: enable_service rabbit', self.output)

    def test_pre_install_refuses_other_distributions(self):
        self.phase('stack', 'pre-install', status=1,
                   HARNESS_DISTRIBUTION='fedora')
        self.assertIn('Debian', self.output)

    def test_install_builds_missing_programs_and_checks_the_host(self):
        self.assertEqual([
            f'setup_develop {ROOT}', f'make -C {ROOT}/datapath all',
            'cargo build --release --locked', 'python -m lab.devstack check',
        ], self.phase('stack', 'install'))

    def test_install_does_not_build_an_existing_checker(self):
        self.assertNotIn('cargo build --release --locked', self.phase(
            'stack', 'install', OCTAVIA_XDP_BUILD_HC='False'))

    def test_post_config_makes_accounts_and_configures_octavia(self):
        calls = self.phase('stack', 'post-config')
        octavia_conf = self.environment['OCTAVIA_CONF']
        self.assertEqual(
            ['python -m lab.devstack configure',
             'python -m lab.devstack broker'], calls[:2])
        self.assertRegex(calls[2], r'rabbitmqctl import_definitions /.*json')
        self.assertEqual(
            ['recreate_database octavia_xdp',
             'octavia-xdp-manage --config-file '
             f'{self.environment["OCTAVIA_XDP_CONF"]} database upgrade',
             'python -m lab.devstack register',
             'python -m lab.devstack drivers ',
             f'iniset {octavia_conf} api_settings enabled_provider_drivers '
             'value of drivers',
             f'iniset {octavia_conf} api_settings default_provider_driver '
             'xdp',
             f'iniset {octavia_conf} database connection_parameters '
             'init_command=SET @octavia=1 /*M!110602 , SESSION '
             'innodb_snapshot_isolation=OFF */'], calls[3:])

    def test_extra_makes_networks_and_starts_services(self):
        self.assertEqual([
            'python -m lab.devstack user', 'python -m lab.devstack networks',
            'python -m lab.devstack fabric',
            'python -m lab.devstack services',
            'run_process o-xdp-ctl /bin/true --of "a b"  stack',
            'python -m lab.devstack flavors',
        ], self.phase('stack', 'extra'))

    def test_test_config_names_the_provider_to_tempest(self):
        self.assertEqual(
            ['python -m lab.devstack tempest', 'iniset '
             f'{self.environment["TEMPEST_CONFIG"]} load_balancer provider '
             'xdp'], self.phase('stack', 'test-config'))
        self.assertEqual([], self.phase('stack', 'test-config',
                                        ENABLED_SERVICES='rabbit'))

    def test_unstack_stops_each_service_and_then_the_fabric(self):
        calls = self.phase('unstack')
        self.assertEqual(9, len([call for call in calls
                                 if call.startswith('stop_process ')]))
        self.assertEqual('python -m lab.devstack fabric-down', calls[-1])

    def test_clean_continues_without_servers(self):
        self.command('rabbitmqctl', '#!/bin/sh\n'
                     'echo "rabbitmqctl $*" >> "$HARNESS_RECORD"\nexit 69\n')
        calls = self.phase('clean')
        for call in ('python -m lab.devstack clean',
                     'rabbitmqctl delete_user a', 'rabbitmqctl delete_vhost b',
                     'python -m lab.devstack database-drop'):
            self.assertIn(call, calls)

    def test_role_node_does_not_change_the_control_host(self):
        node = {'OCTAVIA_XDP_ROLE': 'node', 'ENABLED_SERVICES': ''}
        self.assertEqual([], self.phase('stack', 'pre-install', **node))
        self.assertEqual([], self.phase('stack', 'post-config', **node))
        self.assertEqual(
            ['python -m lab.devstack fabric',
             'python -m lab.devstack services'],
            self.phase('stack', 'extra', **node)[:2])
        self.assertEqual(['python -m lab.devstack clean'],
                         self.phase('clean', **node))


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

    def site(self, **variables):
        site = sites.Site({**self.VARIABLES, **variables})
        site.check()
        return site

    def refused(self, text, **variables):
        error = self.assertRaises(paths.LabError, self.site, **variables)
        self.assertIn(text, str(error))

    def test_invalid_variables_are_refused_by_name(self):
        self.refused('OCTAVIA_XDP_ROLE=both', OCTAVIA_XDP_ROLE='both')
        self.refused("'node1'", OCTAVIA_XDP_NODES='node1')
        self.refused('lb60', OCTAVIA_XDP_NODES='lb61')
        self.refused('is repeated', OCTAVIA_XDP_NODES='lb1 lb1')
        self.refused('is repeated', OCTAVIA_XDP_REMOTE_NODES='lb1=192.0.2.7')
        self.refused("'lb3' has no address", OCTAVIA_XDP_REMOTE_NODES='lb3')
        self.refused('OCTAVIA_XDP_ROUTER_HOST', OCTAVIA_XDP_ROLE='node')
        self.refused('lb3 is repeated',
                     OCTAVIA_XDP_REMOTE_NODES='lb3=192.0.2.7 lb3=192.0.2.8')
        self.refused('OCTAVIA_XDP_NODES is empty', OCTAVIA_XDP_NODES='')
        self.refused('OCTAVIA_XDP_NODES is empty', OCTAVIA_XDP_NODES='',
                     OCTAVIA_XDP_HYPERVISOR='compute1')
        self.refused('OCTAVIA_XDP_NODES is empty', OCTAVIA_XDP_NODES='',
                     OCTAVIA_XDP_ROLE='node',
                     OCTAVIA_XDP_ROUTER_HOST='192.0.2.1')

    def test_invalid_hypervisors_are_refused_by_name(self):
        self.refused("'a b' is no valid name", OCTAVIA_XDP_HYPERVISOR='a b')
        self.refused("'a;b' is no valid name",
                     OCTAVIA_XDP_HYPERVISORS='a;b=192.0.2.7')
        self.refused("'compute2' has no address",
                     OCTAVIA_XDP_HYPERVISORS='compute2')
        self.refused("'compute2=' has no address",
                     OCTAVIA_XDP_HYPERVISORS='compute2=')
        self.refused('c is repeated',
                     OCTAVIA_XDP_HYPERVISORS='c=192.0.2.7 c=192.0.2.8')
        self.refused('has 61 hosts', OCTAVIA_XDP_HYPERVISORS=' '.join(
            f'c{number}=192.0.2.7' for number in range(61)))
        for more in ({'OCTAVIA_XDP_HYPERVISORS': 'compute1=192.0.2.11'}, {
                'OCTAVIA_XDP_ROLE': 'node',
                'OCTAVIA_XDP_ROUTER_HOST': '192.0.2.1'}):
            self.refused('does not name this host, compute2',
                         OCTAVIA_XDP_HYPERVISOR='compute2', **more)

        own = {'OCTAVIA_XDP_HYPERVISORS': COMPUTES,
               'OCTAVIA_XDP_HOST_ADDRESS': '192.0.2.11'}
        self.refused('set OCTAVIA_XDP_HYPERVISOR=compute1', **own)
        self.site(OCTAVIA_XDP_HYPERVISOR='compute1', **own)

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
        self.useFixture(fixtures.MockPatchObject(
            paths.Lab, 'host_directory', autospec=True,
            side_effect=lambda lab, host: pathlib.Path('/lab') / host))
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
        self.useFixture(fixtures.MockPatchObject(
            paths.Lab, 'host_directory', autospec=True,
            side_effect=lambda lab, host: path.parent))
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
        self.useFixture(fixtures.MockPatchObject(
            paths.Lab, 'host_directory', autospec=True,
            side_effect=lambda lab, host: pathlib.Path('/lab') / host))
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
