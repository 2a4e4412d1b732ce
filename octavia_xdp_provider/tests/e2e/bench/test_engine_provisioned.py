# SPDX-License-Identifier: Apache-2.0
"""From a declaration of machines to figures: operators' roles install what is
asked for, our own engine measures that, and the machines are as before."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import uuid

import fixtures
from oslotest import base
import yaml

from bench.beds import packages
from bench.beds import provisioning
from bench.beds import reading
from lab import namespaces
from lab import paths
from lab import processes
from lab.packages import build
from lab.packages import commands
from lab.roles import ansible
from octavia_xdp_provider.tests.e2e.bench import debian_machines
from octavia_xdp_provider.tests.functional.bench import rack_of_machines
from octavia_xdp_provider.tests.functional.bench import ssh_machines

# Far above what it takes on an idle machine.
PATIENCE_S = 900
UNITS = {'lb': ['octavia-xdp-agent', 'octavia-xdp-result-handler',
                'octavia-xdp-hc', 'octavia-xdp-exabgp'],
         'member': ['octavia-xdp-member@ens1']}
# Beside those of the documentation: sysctls of the machine that the test runs
# on stay as they are.
VARIABLES = {'lb_node_sysctl': False,
             'lb_node_options': {'datapath': {'services_max': 64}}}
SCENARIO = '''\
summary: a moment of traffic
services: {vips: 3, members: 6}
traffic: {flows: 64}
measure: {kind: %s, seconds: %s}
beside: [{name: kernel}]
rounds: 1
'''


class TestProvisioned(base.BaseTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        commands.run(paths.CHECKOUT / 'tools/setup', 'packaging')
        ansible.install()
        locked = build.locked()
        locked.__enter__()
        cls.addClassCleanup(locked.__exit__, None, None, None)
        build.with_older()
        cls.addClassCleanup(shutil.rmtree, build.OLD, ignore_errors=True)
        cls.machines = debian_machines.DebianMachines(
            paths.Lab(f'bench-ssh-{uuid.uuid4().hex[:8]}'),
            rack_of_machines.ADDRESSES, rack_of_machines.LINKS,
            build.dependencies())
        cls.addClassCleanup(cls.machines.remove)
        cls.machines.make()

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def declare(self, folder):
        """A bed with the packages of a folder under test."""
        declared = rack_of_machines.declaration(self.machines)
        declared['ssh']['variables'] |= VARIABLES
        declared['software'] = {'packages': str(folder)}
        path = self.folder / 'rack.yaml'
        path.write_text(yaml.safe_dump(declared))
        reading.read(path)

    def start(self, kind, seconds=0.2):
        (self.folder / 'short.yaml').write_text(SCENARIO % (kind, seconds))
        with namespaces.inside(self.machines.lab, ssh_machines.OPERATOR):
            process = subprocess.Popen(
                [sys.executable, '-m', 'bench', 'run', '--scenario',
                 self.folder / 'short.yaml', '--bed',
                 self.folder / 'rack.yaml', '--store',
                 self.folder / 'results.sqlite', '--output', self.folder],
                cwd=paths.CHECKOUT, stdin=subprocess.DEVNULL, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_to_the_end(self, kind):
        """(the rate, the fingerprint, tasks that changed something by host)
        of a run."""
        process = self.start(kind)
        _, said = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(0, process.returncode, said)
        run = json.loads((self.folder / 'suite.json').read_text())
        case, = (case for case in run['cases']
                 if case['software'] == 'xdp')
        self.assertEqual(['kernel'], [ratio['peer']
                                      for ratio in run['versus']])
        changed = {name: int(count) for name, count in re.findall(
            r'^(\w+) +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0',
            provisioning.LOG.read_text(), re.M)}
        self.assertEqual({'lb', 'member'}, set(changed))
        return case['value'], run['fingerprint'], changed

    def settings(self):
        return {name: self.machines.settings(name)
                for name in self.machines.addresses}

    def units(self):
        return {unit: self.machines.systemd[name].shown(unit, 'ActiveState')
                for name, units in UNITS.items() for unit in units}

    def has_its_program(self):
        """Whether the node's agent has attached it again."""
        link, = self.machines.shown('lb', 'link', 'show', 'dev', 'ens2')
        return 'xdp' in link

    def wait_for_units(self):
        processes.wait_for('units to run', lambda: (
            set(self.units().values()) == {'active'}
            and self.has_its_program()), PATIENCE_S, 0.5)

    def check_installed(self, fingerprint, version):
        recorded = fingerprint['beds']['rack']
        for host, name in (('lb', packages.NODE),
                           ('member', 'octavia-xdp-member')):
            self.assertEqual(version,
                             recorded['installed'][host][name].split()[0])
            self.assertEqual(
                version, recorded['machines'][host]['versions'][name])
        self.assertEqual({}, recorded['installed']['generator'])

    def test_installed_measured_and_put_back(self):
        self.declare(build.OLD)
        rate, fingerprint, changed = self.run_to_the_end('max_rate')
        self.assertGreater(rate, 0)
        self.check_installed(fingerprint, build.OLD_VERSION)
        self.assertNotIn(0, changed.values())
        self.wait_for_units()
        before = self.settings()
        self.check_another_build()
        self.wait_for_units()
        self.assertEqual(before, self.settings())

        self.declare(commands.FOLDER)
        rate, fingerprint, changed = self.run_to_the_end('loss_free_rate')
        self.assertGreater(rate, 0)
        self.check_installed(fingerprint, build.version())
        self.assertNotIn(0, changed.values())
        self.wait_for_units()
        self.assertEqual(before, self.settings())

        _, _, changed = self.run_to_the_end('max_rate')
        self.assertEqual({'lb': 0, 'member': 0}, changed)
        self.wait_for_units()
        self.assertEqual(before, self.settings())
        self.check_killed(before)

    def check_killed(self, before):
        process = self.start('max_rate', 600)
        for line in process.stderr:
            if '[1/' in line:
                break
        else:
            self.fail('it ended before anything was measured')
        self.assertNotEqual({'active'}, set(self.units().values()))
        self.assertNotEqual(before, self.settings())
        process.send_signal(signal.SIGKILL)
        self.wait_for_units()
        processes.wait_for('settings as before',
                           lambda: self.settings() == before, PATIENCE_S, 0.5)

    def check_another_build(self):
        """Only the requested build is measured."""
        other = self.folder / 'other'
        other.mkdir()
        for path in build.OLD.glob('*.deb'):
            tree = self.folder / path.stem
            commands.run('dpkg-deb', '--raw-extract', path, tree)
            with open(tree / 'DEBIAN/md5sums', 'a') as sums:
                sums.write('0' * 32 + '  usr/other\n')
            commands.run('dpkg-deb', '--root-owner-group', '-Zgzip', '-z1',
                         '--build', tree, other)
        self.declare(other)
        process = self.start('max_rate')
        _, said = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(1, process.returncode, said)
        self.assertIn(f'{build.OLD_VERSION} installed with other files', said)
