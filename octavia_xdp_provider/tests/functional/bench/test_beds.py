# SPDX-License-Identifier: Apache-2.0
"""Beds of namespaces: what is declared is there, and goes with the run."""

import ipaddress
import json
import os
import pathlib
import signal
import subprocess
import sys

import fixtures
from oslotest import base

from bench import errors
from bench.beds import agent
from bench.beds import interface
from bench.beds import namespaces
from bench.beds import reading
from bench.beds import runs
from bench.declarations import definitions
from lab import namespaces as lab_namespaces
from lab import paths
from lab import processes
from lab.fabric import links
from octavia_xdp_provider.tests.functional.bench.small_bed import BED
from octavia_xdp_provider.tests.functional.bench.small_bed import declared
from octavia_xdp_provider.tests.functional.bench.small_bed import new_run
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import waiting


def of_run(run):
    """Whatever on this machine has the run's name."""
    namespaces_of = list(lab_namespaces.NETNS.glob(runs.namespace(run, '*')))
    return [path.name.rpartition('.')[2] for path in namespaces_of] + [
        path for path in (runs.FOLDER / run,
                          agent.FOLDERS / runs.id_of(run)) if path.exists()]


class BedCase(waiting.Waiting, base.BaseTestCase):

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')

    def build(self, text=BED):
        run = new_run()
        context = namespaces.Provider().build(declared(text), run)
        bed = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return bed


class TestBed(BedCase):
    """One bed, which no test changes for the others."""

    bed = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if os.geteuid() != 0:
            return
        context = namespaces.Provider().build(declared(), new_run())
        cls.bed = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)

    def test_hosts_by_role(self):
        self.assertEqual(['lb1', 'lb2'], [
            host.name for host in self.bed.by_role(interface.LOAD_BALANCER)])
        self.assertEqual([], self.bed.by_role(interface.MEMBER))

    def test_packets_pass_across_the_router(self):
        generator = self.bed.hosts['gen']
        for address in ('203.0.113.1', '2001:db8:113::1'):
            generator.run(['ping', '-c', '1', '-W', '5', address])

    def test_flows_spread_over_next_hops(self):
        done = self.bed.hosts['router'].run(
            ['ip', '-json', 'route', 'show', '203.0.113.0/24'])
        route, = json.loads(done.stdout)
        self.assertEqual(['198.19.1.2', '198.19.1.6'], [
            hop['gateway'] for hop in route['nexthops']])
        self.assertEqual(1400, route['metrics'][0]['mtu'])

    def test_a_segment_is_one_layer_2(self):
        sink = self.bed.hosts['sink']
        self.assertEqual(('lb1', 'lb2'), sink.interfaces['back'].peers)
        for host in 'lb1', 'lb2':
            address = self.bed.hosts[host].interfaces['back'].addresses[0]
            sink.run(['ping', '-c', '1', '-W', '5',
                      str(ipaddress.ip_interface(address).ip)])

    def test_interfaces_are_as_they_are_described(self):
        for host in self.bed.hosts.values():
            done = host.run(['ip', '-json', 'address', 'show'])
            links = {link['ifname']: link for link in json.loads(done.stdout)}
            self.assertEqual(set(host.interfaces) | {'lo'}, set(links))
            for name, described in host.interfaces.items():
                link = links[name]
                self.assertEqual((described.mac, described.mtu),
                                 (link['address'], link['mtu']))
                addresses = {f'{address["local"]}/{address["prefixlen"]}'
                             for address in link['addr_info']}
                self.assertEqual(set(), set(described.addresses) - addresses)

    def test_settings(self):
        host = self.bed.hosts['lb2']
        self.assertEqual('2', host.run(
            ['sysctl', '-n', 'net.ipv4.conf.uplink.rp_filter']).stdout.strip())
        uplink = self.bed.fingerprint()['interfaces']['lb2']['uplink']
        self.assertEqual(('veth', '2', '2'), (
            uplink['driver'], uplink['queues']['rx'], uplink['queues']['tx']))
        self.assertIn('generic-receive-offload', uplink['offloads'])
        self.assertNotIn('tx-checksumming', uplink['offloads'])
        self.assertEqual(9000, host.interfaces['uplink'].mtu)

    def test_neighbours_need_no_question(self):
        done = self.bed.hosts['lb1'].run(['ip', '-json', 'neighbour'])
        neighbours = {entry['dst']: (entry['lladdr'], entry['state'])
                      for entry in json.loads(done.stdout)
                      if entry['dev'] == 'uplink' and 'lladdr' in entry
                      and not entry['dst'].startswith('fe80')}
        mac = self.bed.hosts['router'].interfaces['uplink1'].mac
        self.assertEqual({'198.19.1.1': (mac, ['PERMANENT']),
                          '2001:db8:1::1': (mac, ['PERMANENT'])}, neighbours)

    def test_native_xdp(self):
        """The router's end has a program already; at 9000 bytes, too."""
        router = self.bed.hosts['router']
        self.assertEqual(1, self.xdp(router, 'uplink1'))  # native
        self.assertIsNone(self.xdp(self.bed.hosts['lb1'], 'uplink'))
        lb = self.bed.hosts['lb1']
        tool = str(links.DECAPSULATE)
        lb.run([tool, 'setup', '--any-source', '--mss', 'off', 'uplink'])
        self.addCleanup(lb.run, [tool, 'remove', 'uplink'])
        self.assertEqual(1, self.xdp(lb, 'uplink'))
        router.run(['ping', '-c', '1', '-W', '5', '-M', 'do', '-s', '8900',
                    '198.19.1.2'])

    @staticmethod
    def xdp(host, name):
        done = host.run(['ip', '-json', 'link', 'show', name])
        link, = json.loads(done.stdout)
        return link.get('xdp', {}).get('mode')

@form.in_long_form
class TestHost(BedCase):

    def setUp(self):
        super().setUp()
        self.bed = self.build()
        self.host = self.bed.hosts['lb1']

    def test_a_command_that_fails(self):
        error = self.assertRaises(
            errors.BenchError, self.host.run,
            ['sh', '-c', 'echo reason >&2; exit 3'])
        for part in 'lb1', '(3)', 'reason':
            self.assertIn(part, str(error))
        done = self.host.run(['sh', '-c', 'exit 3'], check=False)
        self.assertEqual(3, done.returncode)

    def test_a_command_that_takes_too_long(self):
        """Its children end with it."""
        marker = self.host.folder / 'pid'
        error = self.assertRaises(
            errors.BenchError, self.host.run,
            ['sh', '-c', f'sleep 1000 & echo $! > {marker}; wait'], timeout=2)
        self.assertIn('did not end within 2 s', str(error))
        pid = int(self.host.read(marker))
        self.wait('end', lambda: not processes.start_time(pid))

    def test_standard_input(self):
        done = self.host.run(['cat'], stdin='text')
        self.assertEqual('text', done.stdout)

    def test_a_process(self):
        process = self.host.start(
            ['sh', '-c', 'echo ready; echo error >&2; while read line; do '
             'echo "got $line"; done; exit 7'], log='some.log')
        self.assertEqual('ready', process.line(self.SOON))
        self.assertIsNone(process.poll())
        process.write('this\n')
        self.assertEqual('got this', process.line(self.SOON))
        self.assertRaises(subprocess.TimeoutExpired, process.line, 0.01)
        self.assertRaises(subprocess.TimeoutExpired, process.wait, 0.01)
        self.assertEqual(-signal.SIGTERM, process.stop())
        self.assertRaises(EOFError, process.line, self.SOON)
        self.assertRaises(EOFError, process.line, self.SOON)
        self.assertRaises(errors.BenchError, self.write_twice, process)
        self.assertEqual(b'error\n', self.host.read(
            self.host.folder / 'some.log'))

    @staticmethod
    def write_twice(process):
        for _ in range(2):
            process.write('more\n')

    def test_a_process_that_does_not_listen_is_killed_with_its_children(self):
        process = self.host.start(
            ['sh', '-c', 'trap "" TERM; sleep 1000 & echo $!; wait; '
             'sleep 1000'], log='some.log')
        pid = int(process.line(self.SOON))
        self.assertEqual(-signal.SIGKILL, process.stop(timeout=0.1))
        self.wait('end', lambda: not processes.start_time(pid))

    def test_files(self):
        source = pathlib.Path(self.useFixture(fixtures.TempDir()).path,
                              'program')
        source.write_text('#!/bin/sh\necho one\n')
        source.chmod(0o755)
        path = self.host.put(source, 'bin/program')
        self.assertEqual('one\n', self.host.run([path]).stdout)
        self.assertEqual(source.read_bytes(), self.host.read(path))
        error = self.assertRaises(errors.BenchError, self.host.read,
                                  self.host.folder / 'none')
        self.assertIn('lb1', str(error))


class TestRefused(BedCase):

    def refused(self, old, new, *parts):
        self.assertIn(old, BED)
        run = new_run()
        context = namespaces.Provider().build(
            declared(BED.replace(old, new)), run)
        error = self.assertRaises(errors.BenchError, context.__enter__)
        for part in parts:
            self.assertIn(part, str(error))
        self.assertEqual([], of_run(run))

    def test_what_the_kernel_refuses(self):
        self.refused('net.ipv4.conf.uplink.rp_filter: 2',
                     'net.ipv4.conf.nothing.rp_filter: 2', 'nothing')
        self.refused('gro: on', 'warp: on', 'lb1', 'uplink', '"warp"')
        self.refused('gro: on', 'lro: on', 'lb1', '"lro"', 'stays off')

    def test_names_of_runs(self):
        context = namespaces.Provider().build(declared(), '../other')
        self.assertRaises(errors.BenchError, context.__enter__)

    @form.in_long_form
    def test_one_bed_for_each_run(self):
        run = new_run()
        with namespaces.Provider().build(declared(), run):
            error = self.assertRaises(
                errors.BenchError,
                namespaces.Provider().build(declared(), run).__enter__)
            self.assertIn('that is alive', str(error))
            self.assertTrue(of_run(run))
        self.assertEqual([], of_run(run))


# Says the pid of what it has started, and waits.
_LIVING = '''\
import sys, time
from octavia_xdp_provider.tests.functional.bench import small_bed
from bench.beds import namespaces
with namespaces.Provider().build(small_bed.declared(), sys.argv[1]) as bed:
    process = bed.hosts['lb1'].start(
        ['sh', '-c', 'trap "" TERM; sleep 1000 & echo $!; wait'], log='log')
    print(process.line(60), flush=True)
    time.sleep(1000)
'''


class TestDeath(BedCase):
    """What a run leaves that is killed."""

    def living(self):
        """A run in a process of its own: (name, process, pid of a child)."""
        run = new_run()
        process = subprocess.Popen(
            [sys.executable, '-c', _LIVING, run], cwd=paths.CHECKOUT,
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(runs.clean)
        child = int(process.stdout.readline())
        return run, process, child

    def test_its_agent_removes_it(self):
        run, process, child = self.living()
        self.assertIn('lb1', of_run(run))
        process.kill()
        self.wait('end', lambda: not of_run(run))
        self.assertIsNone(processes.start_time(child))

    @form.in_long_form
    def test_the_next_one_removes_what_no_agent_did(self):
        """And nothing of a run that is alive."""
        alive, _, alive_child = self.living()
        run, process, child = self.living()
        self.kill_with_agent(run, process)
        self.assertIn('lb1', of_run(run))
        self.assertIsNotNone(processes.start_time(child))
        with namespaces.Provider().build(declared(), new_run()):
            self.assertEqual([], of_run(run))
            self.assertIsNone(processes.start_time(child))
        self.assertIn('lb1', of_run(alive))
        self.assertIsNotNone(processes.start_time(alive_child))

    @form.in_long_form
    def test_clean(self):
        alive, _, _ = self.living()
        run, process, child = self.living()
        self.kill_with_agent(run, process)
        done = subprocess.run(
            [sys.executable, '-m', 'bench', 'clean'], cwd=paths.CHECKOUT,
            capture_output=True, text=True, check=True)
        self.assertIn(f'removed: run {runs.id_of(run)},', done.stdout)
        self.assertIn(f'left alone: run {runs.id_of(alive)},', done.stdout)
        self.assertEqual([], of_run(run))
        self.assertIsNone(processes.start_time(child))
        self.assertIn('lb1', of_run(alive))

    def kill_with_agent(self, run, process):
        agents = [int(entry) for entry in os.listdir('/proc')
                  if entry.isdigit() and self.command(entry)[2:4] == [
                      agent.__file__, runs.id_of(run)]]
        self.assertEqual(1, len(agents), agents)
        # First, so that it does not see the end of its input.
        os.kill(agents[0], signal.SIGKILL)
        process.kill()
        process.wait()

    @staticmethod
    def command(entry):
        try:
            text = pathlib.Path(f'/proc/{entry}/cmdline').read_text()
        except (OSError, UnicodeDecodeError):
            return []
        return text.split('\0')


@form.in_long_form
class TestOurBeds(BedCase):
    """Those of bench/definitions: each can be made."""

    def test_load_balancers_are_reached(self):
        paths_of = sorted((definitions.FOLDER / 'beds').iterdir())
        self.assertTrue(paths_of)
        for path in paths_of:
            with namespaces.Provider().build(reading.read(path),
                                             new_run()) as bed:
                for host in bed.by_role(interface.LOAD_BALANCER):
                    self.reached(bed, host)

    def reached(self, bed, host):
        """By what is in front of it, in the largest packets."""
        for end in host.interfaces.values():
            for peer in end.peers:
                for address in end.addresses:
                    target = ipaddress.ip_interface(address).ip
                    size = end.mtu - (28 if target.version == 4 else 48)
                    bed.hosts[peer].run([
                        'ping', '-c', '1', '-W', '5', '-M', 'do', '-s',
                        str(size), str(target)])
