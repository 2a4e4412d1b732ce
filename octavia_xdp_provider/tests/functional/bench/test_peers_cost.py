# SPDX-License-Identifier: Apache-2.0
"""What load balancers cost, in namespaces of one machine: needs root."""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import types

from bench import errors
from bench.software import cost
from lab import paths
from octavia_xdp_provider.tests.functional.support import peer_bed
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base

MEMBER_TOOL = paths.CHECKOUT / 'datapath' / 'build' / 'octavia-xdp-member'
BUSY_S = 0.3
BUSY = ('import time\nbegin = time.process_time()\n'
        f'while time.process_time() - begin < {BUSY_S}: pass')


@form.in_long_form
class CostsTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.bed = self.enter_context(peer_bed.build())
        self.client = self.bed.hosts['generator']
        self.node, = peer_bed.hosts(self.bed, 'lb')

    def enter_context(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def adopted(self, meter, words):
        """A process on the node that is counted, and then runs a command."""
        process = self.node.start(
            ['sh', '-c', 'echo $$; read _; "$@"', 'sh', *words], log='log')
        meter.adopt(self.node, int(process.line(30)))
        process.write('\n')
        return process

    def flood(self, group, packets=3000):
        host = peer_bed.hosts(self.bed, group)[0]
        self.client.run(['ping', '-f', '-q', '-c', packets,
                         peer_bed.address(host)])


class TestProcessorTime(CostsTest):

    def setUp(self):
        super().setUp()
        self.meter = self.enter_context(cost.open(self.bed))

    def spent(self, what):
        before = self.meter.cpu_seconds()
        what()
        return self.meter.cpu_seconds() - before

    def test_packets_are_charged_to_the_host_that_receives_them(self):
        node = self.spent(lambda: self.flood('lb'))
        another = self.spent(lambda: self.flood('member'))
        self.assertGreater(node, 0)
        self.assertLess(another, node / 10)

    def test_packets_are_charged_after_programs_came_and_went(self):
        for action in (['setup', '--any-source'], ['remove']):
            self.node.run([MEMBER_TOOL, *action, 'uplink'])
            self.assertGreater(self.spent(lambda: self.flood('lb')), 0)

    def test_processes_are_charged_that_have_ended_with_their_children(self):
        self.assertGreater(self.spent(lambda: self.adopted(
            self.meter, [sys.executable, '-c', BUSY]).wait(60)), BUSY_S)

    def test_processes_of_others_are_not_charged(self):
        self.assertLess(self.spent(lambda: self.node.run(
            [sys.executable, '-c', BUSY])), BUSY_S / 2)

    def test_it_never_falls(self):
        looks = []
        for _ in range(5):
            self.flood('lb', 200)
            self.adopted(self.meter, ['true']).wait(30)
            looks.append(self.meter.cpu_seconds())
        self.assertEqual(sorted(looks), looks)
        self.assertGreater(looks[-1], looks[0])

    def test_a_device_that_was_set_up_anew_is_an_error(self):
        self.node.run(['ip', 'link', 'set', 'uplink', 'down'])
        error = self.assertRaises(errors.BenchError, self.meter.cpu_seconds)
        self.assertIn(self.node.name, str(error))
        self.assertIn('set up again', str(error))


class TestMemory(CostsTest):

    def test_of_processes_and_their_sockets(self):
        meter = self.enter_context(cost.open(self.bed))
        self.assertEqual({'processes': 0, 'sockets': 0, 'connections': 0},
                         meter.memory())
        process = self.adopted(meter, [
            sys.executable, '-c', 'import socket\nkept = bytearray(8 << 20)\n'
            'kept[::4096] = bytes(len(kept) // 4096).replace(b"\\0", b"x")\n'
            'one = socket.create_server(("", 80))\n'
            'print("up", flush=True)\ninput()'])
        self.assertEqual('up', process.line(30))
        memory = meter.memory()
        self.assertGreater(memory['processes'], 8 << 20)
        self.assertGreater(memory['sockets'], 0)
        process.stop()
        self.assertEqual(0, meter.memory()['processes'])


class TestBeds(CostsTest):

    def groups(self, name):
        """Of this name: others measure on this machine as well."""
        done = subprocess.run(
            ['unshare', '--mount', 'sh', '-c', 'mount -t cgroup2 none /mnt && '
             'ls /mnt'], check=True, capture_output=True, text=True)
        return [group for group in done.stdout.split() if name in group]

    def threaded(self):
        # A file system that shows the devices of this network namespace.
        return self.node.run(
            ['unshare', '--mount', 'sh', '-c', 'mount -t sysfs sysfs /sys && '
             'cat /sys/class/net/uplink/threaded']).stdout.strip()

    def gro(self):
        shown = self.node.run(['ethtool', '-k', 'uplink']).stdout
        return re.search('generic-receive-offload: (on|off)', shown)[1]

    def test_nothing_stays(self):
        with cost.open(self.bed) as meter:
            self.assertEqual(1, len(self.groups(meter.name)))
            self.assertEqual(('1', 'on'), (self.threaded(), self.gro()))
        self.assertEqual([], self.groups(meter.name))
        self.assertEqual(('0', 'off'), (self.threaded(), self.gro()))

    def test_the_next_run_removes_what_a_killed_one_left(self):
        name = secrets.token_hex(4)
        probe = self.node.put(cost.PROBE, 'probe.py')
        watch = self.node.start(['python3', probe, 'watch', name, 'own'],
                                log='killed.log')
        process = json.loads(watch.line(30))['process']
        with cost.open(self.bed):  # nothing runs in it, but it is in use
            self.assertEqual(1, len(self.groups(name)))
        self.assertEqual(1, len(self.groups(name)))
        os.kill(process, signal.SIGKILL)
        watch.wait(10)
        with cost.open(self.bed):
            self.assertEqual([], self.groups(name))

    def test_it_can_be_opened_again(self):
        for _ in range(2):
            with cost.open(self.bed) as meter:
                before = meter.cpu_seconds()
                self.flood('lb')
                self.assertGreater(meter.cpu_seconds(), before)

    def test_a_device_that_bypasses_its_thread_is_refused(self):
        self.bed.hosts['router'].run(['ethtool', '-K', 'uplink', 'tx', 'on',
                                      'tso', 'on'])
        error = self.assertRaises(errors.BenchError,
                                  cost.open(self.bed).__enter__)
        self.assertIn('uplink has TSO on', str(error))
        self.assertEqual('0', self.threaded())

    def test_a_bed_without_load_balancers_is_refused(self):
        bed = types.SimpleNamespace(name='empty', hosts={},
                                    by_role=lambda role: [])
        error = self.assertRaises(errors.BenchError,
                                  cost.open(bed).__enter__)
        self.assertIn('no load balancer', str(error))

    def test_a_kernel_of_its_own_counts_as_a_whole(self):
        probe = self.node.put(cost.PROBE, 'probe.py')
        watch = self.node.start(['python3', probe, 'watch', 'whole', 'own'],
                                log='whole.log')
        watch.line(30)
        looks = []
        for _ in range(2):
            watch.write('look\n')
            looks.append(json.loads(watch.line(30))['cpu_seconds'])
            subprocess.run([sys.executable, '-c', BUSY], check=True)
        self.assertGreater(looks[1] - looks[0], BUSY_S / 2)
        watch.stop()
