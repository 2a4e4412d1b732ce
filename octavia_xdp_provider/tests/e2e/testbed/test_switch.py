# SPDX-License-Identifier: Apache-2.0
"""Leases on a switch: real Ansible, which reaches it by ssh, and there FRR,
ifupdown2 and VRFs of Debian's kernels.

The switch is a guest, with machines in network namespaces of its own; the
manager is in a network namespace of this machine.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

import fixtures

from lab.roles import ansible
from octavia_xdp_provider.tests.e2e.testbed import switch_in_guest
from octavia_xdp_provider.tests.functional.testbed import command
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base

KERNELS = ('6.12', '6.1') if form.LONG else ('6.12',)
# Emulated, on a busy machine.
GUEST_S = 7200
BOOT_S = 1200
COMMAND_S = 1800
INVENTORY = f'''\
switches:
  leaf1:
    address: {switch_in_guest.ADDRESS}
    as: 65000
    host_key: HOST-KEY
    announced: [203.0.113.0/24]
machines:
  m1:
    role: load_balancer
    address: 192.0.2.11
    ports:
    - switch: leaf1
      port: swp1
      addresses: [198.18.1.1/30]
      bgp: {{address: 198.18.1.2, as: 65001}}
  m2:
    role: load_balancer
    address: 192.0.2.12
    ports:
    - switch: leaf1
      port: swp2
      addresses: [198.18.1.1/30]
      bgp: {{address: 198.18.1.2, as: 65001}}
  m3:
    role: generator
    address: 192.0.2.13
    ports:
    - {{switch: leaf1, port: swp3, addresses: [198.18.0.1/24]}}
'''
# It has the network for as long as the test lives.
_NETWORK = '''\
ip link set lo up
ip tuntap add tap0 mode tap
ip address add 192.0.2.1/24 dev tap0
ip link set tap0 up
echo made
exec sleep infinity
'''
_NEVER_LEASED = {'up': False, 'master': None, 'addresses': []}


class Switch:
    """A guest with sshd, and the namespace from which it is reached."""

    def __init__(self, test, kernel, folder):
        self._folder = folder
        self._manager = self._start(
            test, ['unshare', '--net', 'setpriv', '--pdeathsig', 'KILL',
                   'sh', '-ec', _NETWORK], stdout=subprocess.PIPE)
        test.assertEqual('made\n', self._manager.stdout.readline())
        self._log = folder / f'guest-{kernel}.log'
        with open(self._log, 'w') as log:
            # Emulated processors run in turn: a second one is of no use.
            self._guest = self._start(test, self.inside(
                'setpriv', '--pdeathsig', 'TERM', '--',
                command.CHECKOUT / 'tools/on-kernel', '--timeout',
                str(GUEST_S), '--memory', '2048', '--cpus', '1', '--nic',
                'tap,ifname=tap0,script=no,downscript=no,'
                'model=virtio-net-pci', kernel, '--', sys.executable,
                switch_in_guest.__file__, 'serve', folder),
                stdout=log)

    def _start(self, test, words, stdout):
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=stdout,
            stderr=subprocess.STDOUT, text=True, cwd=command.CHECKOUT)
        test.addCleanup(process.communicate)
        test.addCleanup(process.terminate)
        return process

    def stop(self):
        """Free the processor for the guest of the next kernel."""
        for process in self._guest, self._manager:
            process.terminate()
            process.wait()

    def inside(self, *words):
        """As a command of the manager."""
        return ['nsenter', f'--net=/proc/{self._manager.pid}/ns/net',
                *words]

    def said(self):
        return self._log.read_text(errors='replace')

    def wait(self, test):
        """Until it serves."""
        end = time.monotonic() + BOOT_S
        while '\nSERVES\n' not in self.said():
            test.assertIsNone(self._guest.poll(), self.said())
            test.assertLess(time.monotonic(), end, self.said())
            time.sleep(1)

    def look(self, test):
        """See switch_in_guest.look."""
        done = subprocess.run(
            self.inside('ssh', '-F', 'none', '-i', self._folder / 'manager',
                        '-o', 'BatchMode=yes', '-o', 'ConnectTimeout=300',
                        '-o', f'UserKnownHostsFile={self._folder}/known',
                        f'root@{switch_in_guest.ADDRESS}', shlex.join([
                            sys.executable, switch_in_guest.__file__,
                            'look'])),
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=COMMAND_S)
        test.assertEqual(0, done.returncode, done.stderr + self.said())
        return json.loads(done.stdout)


class TestSwitch(base.TestCase):

    def setUp(self):
        super().setUp()
        ansible.install()
        for kernel in KERNELS:  # A guest's own namespace reaches no mirror.
            subprocess.run([command.CHECKOUT / 'tools/kernel-image', kernel],
                           check=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
        self.folder = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        # Unpacked, for to install it would change this machine's network.
        for words in (['apt-get', 'download', 'ifupdown2'],
                      ['sh', '-c', 'dpkg-deb --extract ifupdown2_*.deb .']):
            subprocess.run(words, cwd=self.folder, check=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.keys = {name: self.key(name)
                     for name in ('host', 'other', 'manager')}
        (self.folder / 'known').write_text(
            f'{switch_in_guest.ADDRESS} {self.keys["host"]}\n')

    def key(self, name):
        """Make a pair of keys; the public one."""
        path = self.folder / name
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C',
                        '', '-f', path], check=True)
        return path.with_suffix('.pub').read_text().strip()

    def test_leases_with_the_same_addresses_are_kept_apart(self):
        for kernel in KERNELS:
            with self.subTest(kernel):
                self.check(Switch(self, kernel, self.folder), kernel)

    def check(self, switch, kernel):
        self.switch = switch
        self.bed = command.Command(
            self.folder / f'bed-{kernel}',
            INVENTORY.replace('HOST-KEY', self.keys['other']))
        self.bed.ansible = ansible.ENVIRONMENT / 'bin/ansible-playbook'
        switch.wait(self)
        self.foreign_host_keys_are_refused()
        self.run_bed('sync')
        before = switch.look(self)
        self.assertEqual({}, before['beds'])
        self.assertEqual([_NEVER_LEASED] * 3, [*before['links'].values()])

        self.run_bed('reserve', 'm1', '--purpose', 'one')
        self.run_bed('reserve', 'm2', 'm3', '--purpose', 'two', owner='bob')
        self.assertIn('applied: commit', self.run_bed('sync'))
        self.kept_apart(switch.look(self))
        self.assertIn('switch leaf1: 0 changed', self.run_bed('sync'))

        self.run_bed('release', '1')
        self.assertNotIn('switch leaf1: 0 changed', self.run_bed('sync'))
        self.second_lease_alone(switch.look(self), before)

        self.run_bed('release', '2', owner='bob')
        self.run_bed('sync')
        self.assertEqual(before, switch.look(self))
        switch.stop()

    def run_bed(self, *words, owner='alice', status=0):
        """As the manager, who has a key."""
        done = subprocess.run(
            self.switch.inside(*self.bed.words(*words, owner=owner)),
            cwd=command.CHECKOUT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=COMMAND_S, env={
                **os.environ, 'ANSIBLE_TIMEOUT': '300',
                'ANSIBLE_PRIVATE_KEY_FILE': str(self.folder / 'manager'),
                # A guest has the address of the one before, whose
                # connection outlives it and needs no host key any more.
                'ANSIBLE_SSH_CONTROL_PATH_DIR':
                    str(self.bed.folder / 'connections'),
                'ANSIBLE_SSH_ARGS':
                    '-F none -o ControlMaster=auto -o ControlPersist=60'})
        self.assertEqual(status, done.returncode, done.stdout)
        return done.stdout

    def foreign_host_keys_are_refused(self):
        """Nothing is done on a host that is not the declared switch."""
        said = self.run_bed('sync', status=1)
        self.assertIn('Host key verification failed', said)
        self.assertNotIn('applied: commit', said)
        path = self.bed.folder / 'inventory.yaml'
        path.write_text(INVENTORY.replace('HOST-KEY', self.keys['host']))

    def kept_apart(self, seen):
        """m1 is the first lease; m2 and m3 are the second one."""
        self.assertEqual(['bed1', 'bed2'], sorted(seen['beds']))
        for vrf, machine in ('bed1', 'm1'), ('bed2', 'm2'):
            self.assertEqual({
                'learned': True, 'pings 198.18.1.2': True,
                'pings 198.18.0.2': vrf == 'bed2',
                'at 198.18.1.2': machine, 'at the VIP': machine,
                'learned what is foreign': False}, seen['beds'][vrf])
        self.assertEqual({'m1': None, 'm2': 'm3'}, seen['m3 from'])
        self.assertEqual('m2', seen['the VIP from m3'])
        self.assertEqual(
            {name: {'up': True, 'master': vrf, 'addresses': [address]}
             for name, vrf, address in (('swp1', 'bed1', '198.18.1.1'),
                                        ('swp2', 'bed2', '198.18.1.1'),
                                        ('swp3', 'bed2', '198.18.0.1'))},
            seen['links'])
        for vrf in 'bed1', 'bed2':
            self.assertIn(f'router bgp 65000 vrf {vrf}', seen['frr'])

    def second_lease_alone(self, seen, before):
        """It has not felt the end of the first one."""
        self.assertEqual(['bed2'], sorted(seen['beds']))
        self.assertEqual('m2', seen['beds']['bed2']['at the VIP'])
        self.assertEqual('m2', seen['the VIP from m3'])
        self.assertEqual(before['links']['swp1'], seen['links']['swp1'])
        self.assertNotIn('bed1', seen['frr'])
        self.assertIn('router bgp 65000 vrf bed2', seen['frr'])
