# SPDX-License-Identifier: Apache-2.0
"""Inventories: what they hold, and the line of what is wrong."""

import pathlib

import fixtures

from bench import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.testbed import samples
from testbed import inventory


class TestInventory(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def load(self, text=samples.TEXT):
        return inventory.load(samples.write(self.folder, text))

    def test_all_of_it_is_read(self):
        known = self.load()
        self.assertEqual(['gen1', 'lb1', 'lb2'], sorted(known.machines))
        self.assertEqual(
            inventory.Port('leaf1', 'swp2',
                           ('198.18.1.1/30', '2001:db8:1::1/126'),
                           ('198.18.1.2', 65001)),
            known.machines['lb1'].ports[0])
        self.assertEqual((48, 8069), (known.longest_hours,
                                      known.boot.http_port))
        self.assertEqual(self.folder / 'root.img',
                         known.kernels['debian-6.12'].root)

    def refused(self, old, new, line, said):
        """With a part of the text replaced."""
        self.assertIn(old, samples.TEXT)
        text = samples.TEXT.replace(old, new, 1)
        error = self.assertRaises(errors.DeclarationError, self.load, text)
        self.assertIn(said, str(error))
        self.assertEqual(line, error.line, str(error))

    def test_what_is_wrong_is_named_with_its_line(self):
        for old, new, line, said in (
                ('role: generator', 'role: toaster', 6, 'toaster'),
                ('address: 192.0.2.11', 'adress: 192.0.2.11', 5,
                 'did you mean "address"?'),
                ('port: swp1', 'port: "swp1 up"', 9, 'swp1 up'),
                ('port: swp1', 'port: "swp1\\n"', 9, 'swp1'),
                ('198.18.0.1/24', '198.18.0.1/64', 9, '198.18.0.1/64'),
                ('switch: leaf1, port: swp1', 'switch: leaf9, port: swp1', 9,
                 'leaf9'),
                ('port: swp3', 'port: swp2', 24, 'port of lb1 already'),
                ('00:00:02', '00:00:01', 22, 'address of lb1 already'),
                ('192.0.2.12', '192.0.2.11', 12, 'address of gen1 already'),
                ('192.0.2.12', '192.0.2.2', 12, 'address of leaf1 already'),
                ('lb2:', 'lb1:', 19, 'a second time'),
                ('198.18.1.2', '198.18.1.9', 18, 'no network of this port'),
                ('kernel: vmlinuz', 'kernel: other', 30, 'there is no file'),
                ('root: root.img', '# none', 33, '@root@'),
                ('console=ttyS0 fetch=@root@', '"quiet; reboot"', 33,
                 'reboot'),
                ('port: swp2', 'port: sixteen-letters-', 16, 'sixteen'),
                ("'2001:db8:1::1/126'", "'fe80::1%a b/64'", 17, 'zone'),
                ('192.0.2.1,', '198.51.100.1,', 34, 'not in'),
                ('announced: [203.0.113.0/24]', 'announced: [203.0.113.1/24]',
                 3, 'host bits'),
                ('as: 65000', 'as: 65000, host_key: AAAAC3Nz', 3,
                 '.pub file'),
                ('as: 65000', 'as: 65000, host_key: "ssh-rsa AA\\n* ssh"', 3,
                 '.pub file'),
                ('interface: mgmt0', 'protocol: nfs, interface: mgmt0', 34,
                 'nfs'),
                ('interface: mgmt0', 'interface: mgmt0, protocol: tftp, '
                 'http_port: 80', 34, 'nothing listens'),
                ('longest_lease_hours: 48', 'longest_lease_hours: 0', 1,
                 '1 or more'),
                ('switches:', '\tswitches:', 2, "'\\t'")):
            with self.subTest(new):
                self.refused(old, new, line, said)

    def test_kernels_need_somebody_who_serves_them(self):
        text = samples.TEXT[:samples.TEXT.index('boot:')]
        error = self.assertRaises(errors.DeclarationError, self.load, text)
        self.assertIn('"boot" is missing', str(error))

    def test_a_file_that_is_missing_is_named(self):
        error = self.assertRaises(errors.BenchError, inventory.load,
                                  self.folder / 'none.yaml')
        self.assertIn('none.yaml', str(error))
