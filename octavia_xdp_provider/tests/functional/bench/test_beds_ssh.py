# SPDX-License-Identifier: Apache-2.0
"""Beds of machines that are reached by ssh, each a namespace with an sshd."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import uuid

from bench import errors
from bench import fingerprint
from bench.beds import agent
from bench.beds import runs
from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.tests.functional.bench import ssh_bed

_RUN = '''\
import pathlib, sys, time
from bench.beds import reading, ssh
bed = reading.read(pathlib.Path(sys.argv[1]))
with ssh.Provider().build(bed, sys.argv[2]) as made:
    process = made.hosts['lb'].start(
        ['sh', '-c', 'trap "" TERM; setsid sleep 1000 & echo $!; wait'],
        log='log')
    print(process.line(60), flush=True)
    time.sleep(1000)
'''


class TestBed(ssh_bed.BedCase):

    def test_a_bed_is_configured_and_taken_back(self):
        before = self.settings()
        with self.inside(), self.build() as bed:
            generator, lb = bed.hosts['gen'], bed.hosts['lb']
            generator.run(['ping', '-c', '1', '-W', '5', '203.0.113.1'])
            generator.run(['ping', '-c', '1', '-W', '5', '2001:db8:19::2'])
            lb.run(['ping', '-c', '1', '-W', '5', '198.19.1.2'])
            front = lb.interfaces['front']
            self.assertEqual(('ens1', 1600, ('gen',)),
                             (front.name, front.mtu, front.peers))
            shown, = self.machines.shown('lb', 'address', 'show', 'ens1')
            self.assertEqual((front.mac, 1600),
                             (shown['address'], shown['mtu']))
            self.assertEqual('1', lb.run(
                ['sysctl', '-n', 'net.ipv4.ip_forward']).stdout.strip())
            recorded = json.loads(json.dumps(
                fingerprint.Watch([bed]).end()))['beds']['machines']
            self.assertEqual({'gen', 'lb', 'sink'}, set(recorded['machines']))
            self.assertNotIn('tx-checksumming',
                             recorded['interfaces']['lb']['front']['offloads'])
            self.assertNotEqual(before['lb'], self.settings()['lb'])
        self.assertEqual(before, self.settings())
        self.assertEqual([], self.folders())


class TestRefused(ssh_bed.BedCase):

    def refused(self, text, *parts):
        with self.inside():
            error = self.assertRaises(errors.BenchError,
                                      self.build(text).__enter__)
        for part in parts:
            self.assertIn(part, str(error))
        self.wait('end of agents', lambda: not self.folders())

    def test_a_machine_with_another_key(self):
        self.refused(self.text(lb=self.machines.keys['gen']),
                     'host lb (192.0.2.12)', 'Host key verification failed')

    def test_a_machine_that_is_not_known(self):
        hosts = self.machines.lab.directory / 'known'
        hosts.write_text(f'192.0.2.13 {self.machines.keys["sink"]}\n')
        text = self.text().replace(
            f'host_key: {self.machines.keys["lb"]}', '').replace(
            'ssh: {key', f'ssh: {{known_hosts: {hosts}, key')
        self.refused(text, 'host lb (192.0.2.12)', 'verification failed')

    def test_an_interface_that_is_not_there(self):
        self.refused(self.text().replace('back: ens2', 'back: ens9'),
                     'host lb', 'ens9', 'ens2')

    def test_a_route_that_is_there_already(self):
        namespaces.route(self.machines.lab, 'gen', '203.0.113.0/24',
                         interface='mgmt')
        self.addCleanup(processes.run, self.machines.lab, 'gen', [
            'ip', 'route', 'del', '203.0.113.0/24'])
        self.refused(None, 'host gen', 'has a route to 203.0.113.0/24')


class TestDeath(ssh_bed.BedCase):

    def test_a_host_that_dies(self):
        """The error names it; no process is left on the others."""
        dead = None

        def use():
            nonlocal dead
            with self.build() as bed:
                processes_of = {
                    name: host.start(['sh', '-c', 'echo $$; sleep 1000'],
                                     log='log')
                    for name, host in bed.hosts.items()}
                pids = {name: int(process.line(self.SOON))
                        for name, process in processes_of.items()}
                self.pids = pids
                self.kill_sshd('lb')
                dead = self.assertRaises(errors.BenchError,
                                         bed.hosts['lb'].run, ['true'])
                self.assertEqual(str(dead), str(self.assertRaises(
                    errors.BenchError, processes_of['lb'].wait,
                    self.SOON)))
                self.assertIsNone(processes_of['sink'].poll())
                bed.hosts['sink'].run(['true'])
                raise dead

        with self.inside():
            error = self.assertRaises(errors.BenchError, use)
        self.assertIs(dead, error)
        self.assertIn('host lb (192.0.2.12): the connection is lost',
                      str(error))
        self.wait('end of processes', lambda: not any(
            processes.start_time(pid) for pid in self.pids.values()))
        self.wait('end of agents', lambda: not self.folders())

    def kill_sshd(self, name):
        """With all that it has for connections, also as sshd-session."""
        for pid in namespaces.processes_in(self.machines.lab, name):
            command = pathlib.Path(f'/proc/{pid}/comm').read_text().strip()
            if command.startswith('sshd'):
                os.kill(pid, signal.SIGKILL)
        self.wait('end of sshd', lambda: not processes.alive(
            self.machines.lab, f'sshd-{name}'))
        self.addCleanup(self.machines.start_sshd, name)

    def living(self):
        """A run in a process of its own: (name, process, pid over there)."""
        path = self.machines.lab.directory / 'bed.yaml'
        path.write_text(self.text())
        run = f'test-{uuid.uuid4().hex[:12]}'
        with self.inside():
            process = subprocess.Popen(
                [sys.executable, '-c', _RUN, path, run], cwd=paths.CHECKOUT,
                stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return run, process, int(process.stdout.readline())

    def test_a_run_that_is_killed(self):
        before = self.settings()
        run, process, pid = self.living()
        self.assertIsNotNone(processes.start_time(pid))
        process.kill()
        process.wait()
        self.wait('end', lambda: not self.folders()
                  and not (runs.FOLDER / run).exists())
        self.assertIsNone(processes.start_time(pid))
        self.assertEqual(before, self.settings())

    def test_an_agent_that_is_killed(self):
        """The next one ends and undoes what it has left."""
        before = self.settings()
        run, process, pid = self.living()
        agents = list(self.agents(run))
        self.assertEqual(len(self.ADDRESSES), len(agents))
        for agent_pid in agents:
            os.kill(agent_pid, signal.SIGKILL)
        process.kill()
        process.wait()
        self.wait('end', lambda: not (runs.FOLDER / run).exists())
        self.assertIsNotNone(processes.start_time(pid))
        self.assertNotEqual(before['lb'], self.settings()['lb'])
        for name in self.ADDRESSES:
            # As on three machines, each of which removes its own leftovers.
            done = subprocess.run(
                ['nsenter', f'--net={namespaces.NETNS}/'
                 f'{self.machines.lab.namespace(name)}', '--',
                 sys.executable, '-c', 'import sys\n'
                 'from bench.beds import agent\n'
                 'import pathlib\n'
                 'agent.end(pathlib.Path(sys.argv[1]))',
                 agent.FOLDERS / f'{runs.id_of(run)}.{name}'],
                cwd=paths.CHECKOUT, timeout=self.SOON)
            self.assertEqual(0, done.returncode)
        self.assertIsNone(processes.start_time(pid))
        self.assertEqual(before, self.settings())
        with self.inside(), self.build():
            pass

    def agents(self, run):
        name = runs.id_of(run)
        for entry in os.listdir('/proc'):
            if not entry.isdigit():
                continue
            try:
                text = pathlib.Path(f'/proc/{entry}/cmdline').read_text()
            except (OSError, UnicodeDecodeError):
                continue
            words = text.split('\0')
            if words[0].endswith('python3') and any(
                    word.startswith(f'{name}.') for word in words):
                yield int(entry)


class TestAgents(ssh_bed.BedCase):

    def test_two_runs_at_once(self):
        second = self.text()
        with self.inside(), self.build() as bed:
            # Its addresses are those of the first: they stay.
            text = second.replace('    routes:\n      - {to: 203.0.113.0/24, '
                                  'via: lb}\n', '')
            with self.build(text) as other:
                self.assertNotEqual(bed.hosts['lb'].folder,
                                    other.hosts['lb'].folder)
            bed.hosts['gen'].run(['ping', '-c', '1', '-W', '5',
                                  '203.0.113.1'])
