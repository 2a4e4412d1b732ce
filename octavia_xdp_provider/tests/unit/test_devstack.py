# SPDX-License-Identifier: Apache-2.0
"""DevStack's plugin: its files agree, and each phase makes the right calls.

All phases on real servers are in lab/devstack/trial.py.
"""

import json
import os
import pathlib
import re
import subprocess

import fixtures

import lab
from octavia_xdp_provider.tests.unit import base

ROOT = pathlib.Path(lab.__file__).parent.parent
PLUGIN = ROOT / 'devstack'
FUNCTIONS = PLUGIN / 'tests' / 'functions.sh'
CONTRACT = json.loads((PLUGIN / 'tests' / 'contract.json').read_text())
# Packages of bindep.txt that DevStack installs, or that only a lab needs.
NOT_ITS_OWN = {'mariadb-server', 'rabbitmq-server', 'postgresql',
               'tcpdump', 'frr', 'haproxy'}

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
        host = {'OCTAVIA_XDP_ROLE': 'node', 'OCTAVIA_XDP_NODES': '',
                'OCTAVIA_XDP_HYPERVISOR': 'compute2', 'ENABLED_SERVICES': ''}
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
