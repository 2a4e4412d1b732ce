# SPDX-License-Identifier: Apache-2.0
"""Leases on a switch: FRR, ifupdown2 and VRFs of Debian's kernels."""

import json
import pathlib
import subprocess
import sys

import fixtures

from octavia_xdp_provider.tests.e2e.bench import switch_in_guest
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base

KERNELS = ('6.1', '6.12')
TIMEOUT_S = 5400


class TestSwitch(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        # Unpacked, for to install it would change this machine's network.
        for words in (['apt-get', 'download', 'ifupdown2'],
                      ['sh', '-c', 'dpkg-deb --extract ifupdown2_*.deb .']):
            subprocess.run(words, cwd=self.folder, check=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def seen(self, kernel):
        """What there was in a guest of a kernel."""
        tool = switch_in_guest.CHECKOUT / 'tools/on-kernel'
        done = subprocess.run(
            [tool, '--timeout', str(TIMEOUT_S), '--memory', '2048',
             kernel, '--', sys.executable,
             switch_in_guest.__file__, self.folder], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors='replace', cwd=switch_in_guest.CHECKOUT)
        self.assertEqual(0, done.returncode, done.stdout)
        line = next((line for line in done.stdout.splitlines()
                     if line.startswith('SEEN ')), None)
        self.assertIsNotNone(line, done.stdout)
        return json.loads(line.removeprefix('SEEN '))

    @form.in_long_form
    def test_leases_with_the_same_addresses_are_kept_apart(self):
        for kernel in KERNELS:
            with self.subTest(kernel):
                self.check(self.seen(kernel))

    def check(self, seen):
        self.assertEqual([], seen['before'])
        self.assertIn('applied: commit', seen['first sync'])
        self.assertEqual(['bed1', 'bed2'], seen['vrfs'])
        # The same addresses and the same VIP, each its own.
        for vrf, machine in ('bed1', 'm1'), ('bed2', 'm2'):
            self.assertTrue(seen[f'{vrf} has learned'])
            self.assertEqual(machine, seen[f'{vrf} at 198.18.1.2'])
            self.assertEqual(machine, seen[f'{vrf} at the VIP'])
            self.assertFalse(seen[f'{vrf} learned what is foreign'])
        # m3 is of the second lease.
        self.assertEqual('m3', seen['m3 from m2'])
        self.assertIsNone(seen['m3 from m1'])
        self.assertEqual('m2', seen['the VIP from m3'])
        self.assertIn('switch leaf1: 0 changed', seen['second sync'])
        # The first lease is over; the second one has not felt it.
        self.assertNotIn('switch leaf1: 0 changed', seen['third sync'])
        self.assertEqual(['bed2'], seen['vrfs at the end'])
        self.assertEqual('m2', seen['bed2 at the end'])
        port = seen['swp1 at the end']
        self.assertNotIn('UP', port['flags'])
        self.assertEqual([], port['addr_info'])
        self.assertNotIn('bed1', seen['frr at the end'])
        self.assertIn('router bgp 65000 vrf bed2', seen['frr at the end'])
