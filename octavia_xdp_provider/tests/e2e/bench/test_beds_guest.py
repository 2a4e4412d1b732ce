# SPDX-License-Identifier: Apache-2.0
"""Beds in a guest with one of Debian's kernels."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import uuid

from oslotest import base

from bench import errors
from bench import fingerprint
from bench.beds import agent
from bench.beds import guest
from bench.beds import reading
from bench.beds import runs
from bench.declarations import definitions
from lab import paths
from lab import processes

# Emulated, on a busy machine.
SOON_S = 300


def group_of(run):
    """Return the process group of a run's guest."""
    socket = agent.FOLDERS / runs.id_of(run) / 'guest'
    done = subprocess.run(
        ['pgrep', '--full', f'qemu.*path={socket},'], capture_output=True,
        text=True, check=True)
    return os.getpgid(int(done.stdout.split()[0]))


class TestGuest(base.BaseTestCase):
    """One guest, for all tests; the last thing that happens is its death."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_name = f'test-{uuid.uuid4().hex[:12]}'
        context = guest.Provider().build(
            reading.read(definitions.find('beds', 'one-node'), 'guest'),
            cls.run_name)
        cls.bed = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)

    def test_a_bed_on_another_kernel(self):
        lb = self.bed.hosts['lb']
        self.assertIn('+deb', lb.run(['uname', '-r'],
                                     timeout=SOON_S).stdout)
        for address in '198.19.0.1', '198.19.10.14', '2001:db8:19:10::14':
            lb.run(['ping', '-c', '1', '-W', '60', address], timeout=SOON_S)
        done = lb.run(['ip', '-json', 'link', 'show', 'back'],
                      timeout=SOON_S)
        link, = json.loads(done.stdout)
        back = lb.interfaces['back']
        self.assertEqual((back.mac, back.mtu, ('member',)),
                         (link['address'], link['mtu'], back.peers))

    def test_the_fingerprint_is_of_both_machines(self):
        recorded = json.loads(json.dumps(
            fingerprint.Watch([self.bed]).end()))['beds']['one-node']
        machines = recorded['machines']
        own = pathlib.Path('/proc/sys/kernel/osrelease').read_text().strip()
        self.assertEqual(own, machines['machine']['kernel']['release'])
        self.assertIn('+deb', machines['guest']['kernel']['release'])
        self.assertIn('linux-image', recorded['guest']['kernel'])
        self.assertIn('QEMU', recorded['guest']['qemu'])
        self.assertEqual('veth',
                         recorded['interfaces']['lb']['front']['driver'])

    def test_z_the_death_of_the_guest(self):
        """A waiting caller is told at once."""
        process = self.bed.hosts['lb'].start(['sleep', '10000'], log='log')
        os.killpg(group_of(self.run_name), signal.SIGKILL)
        for wait in (lambda: process.wait(SOON_S),
                     lambda: self.bed.hosts['lb'].run(['true'])):
            error = self.assertRaises(errors.BenchError, wait)
            self.assertIn('guest with kernel 6.12: the connection is lost',
                          str(error))


class TestRefused(base.BaseTestCase):

    def build(self, old, new):
        path = pathlib.Path('bed.yaml')
        text = definitions.find('beds', 'one-node').read_text()
        self.assertIn(old, text)
        run = f'test-{uuid.uuid4().hex[:12]}'
        declared = reading.from_document(reading.document.parse(
            text.replace(old, new, 1), path, reading.SCHEMA), 'guest')
        error = self.assertRaises(
            errors.BenchError,
            guest.Provider().build(declared, run).__enter__)
        self.assertFalse((runs.FOLDER / run).exists())
        return str(error)

    def test_a_kernel_that_is_not_there(self):
        said = self.build('hosts:\n', 'guest: {kernel: "5.15"}\nhosts:\n')
        self.assertIn('there is no kernel 5.15', said)

    def test_what_the_guest_refuses(self):
        said = self.build('net.ipv4.ip_forward: 1',
                          'net.ipv4.nothing: 1')
        self.assertIn('lb: sysctl', said)
        self.assertIn('nothing', said)


_RUN = '''\
import sys, time
from bench.beds import guest, reading
from bench.declarations import definitions
bed = reading.read(definitions.find('beds', 'one-node'), 'guest')
with guest.Provider().build(bed, sys.argv[1]):
    print('made', flush=True)
    time.sleep(10000)
'''


class TestDeath(base.BaseTestCase):

    def test_a_run_that_is_killed(self):
        """QEMU ends with it."""
        run = f'test-{uuid.uuid4().hex[:12]}'
        process = subprocess.Popen(
            [sys.executable, '-c', _RUN, run], cwd=paths.CHECKOUT,
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual('made\n', process.stdout.readline())
        group = group_of(run)
        self.assertIn('qemu-system-x86', self.members(group))
        process.kill()
        processes.wait_for('end', lambda: not (runs.FOLDER / run).exists()
                           and not self.members(group), SOON_S)

    @staticmethod
    def members(group):
        """Names of the processes of a group that are alive."""
        names = []
        for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
            try:
                text = path.read_text()
            except OSError:  # It has ended.
                continue
            name, _, fields = text.partition('(')[2].rpartition(') ')
            state, _parent, its_group, *_ = fields.split()
            if int(its_group) == group and state not in 'ZX':
                names.append(name)
        return names
