# SPDX-License-Identifier: Apache-2.0
"""Files of the agent, which may have been taken over."""

import ipaddress
import json
import os
import pathlib

import fixtures

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.launcher import orders
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy.launcher import world

NUMBERS = range(70000, 70010)
ID = world.identity_of(1)
HASH = orders.digest(b'')


class OrdersCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.top = self.useFixture(fixtures.TempDir()).path
        self.directory = pathlib.Path(self.top, ID)
        self.directory.mkdir()

    def write(self, **more):
        wanted = {**world.launch(70001, HASH, [80, 81]), **more}
        (self.directory / proxy_launch.LAUNCH).write_text(json.dumps(wanted))
        return wanted

    def read(self):
        return orders.read(self.top, ID, NUMBERS)


class TestOrders(OrdersCase):

    def test_order_is_read(self):
        wanted = self.write()
        self.assertEqual((wanted, None, wanted['configuration_hash']),
                         self.read())
        self.assertIsNone(orders.read(self.top, world.identity_of(2),
                                      NUMBERS))

    def test_token_outside_of_the_networks_is_refused(self):
        network = ipaddress.ip_network('100.64.0.0/10')
        wanted = self.write(tokens=[{
            'address': '100.64.0.1', 'member': '10.0.0.5', 'tunnel': {
                'address': '198.18.20.1', 'encapsulation': 'geneve',
                'key': 7}}])
        self.assertEqual(wanted, orders.read(
            self.top, ID, NUMBERS, [network]).launch)
        for networks in ([], [ipaddress.ip_network('100.65.0.0/16')]):
            order = orders.read(self.top, ID, NUMBERS, networks)
            self.assertIsNone(order.launch)
            self.assertIn('token_networks', order.problem)

    def test_key_that_geneve_has_no_room_for_is_refused(self):
        network = ipaddress.ip_network('100.64.0.0/10')
        for encapsulation, key, is_taken in (
                ('geneve', (1 << 24) - 1, True), ('geneve', 1 << 24, False),
                ('srv6', 1 << 24, True)):
            self.write(tokens=[{
                'address': '100.64.0.1', 'member': '10.0.0.5', 'tunnel': {
                    'address': '2001:db8:1::', 'key': key,
                    'encapsulation': encapsulation}}])
            order = orders.read(self.top, ID, NUMBERS, [network])
            self.assertEqual(is_taken, order.launch is not None, order)

    def test_unusable_values_are_named(self):
        sockets = world.launch(1, HASH, [80, 81])['sockets']
        for changed, expected in (
                ({'number': 69999}, 'number 69999 is not'),
                ({'number': '70001'}, 'number: the value'),
                ({'number': True}, 'number: the value'),
                ({'user': 'root'}, 'user: this version does not know it'),
                ({'memory_bytes': 1}, 'memory_bytes: the value 1 is not'),
                ({'configuration_hash': '../etc'}, 'configuration_hash'),
                ({'certificates': '../../x'}, 'certificates'),
                ({'certificates': '.'}, 'certificates'),
                ({'sockets': [{**sockets[0], 'name': 'LD_PRELOAD'}]},
                 'sockets.0.name'),
                ({'sockets': [{**sockets[0], 'address': 'x'}]},
                 'sockets.0.address'),
                ({'sockets': [sockets[0], {**sockets[1], 'port': 80}]},
                 'the same address and port'),
                ({'sockets': [sockets[0],
                              {**sockets[1], 'name': sockets[0]['name']}]},
                 'the same name'),
                ({'members': [{'address': '192.0.2.1', 'port': 0}]},
                 'members.0.port')):
            with self.subTest(changed):
                self.write(**changed)
                order = self.read()
                self.assertIsNone(order.launch)
                self.assertIn(expected, order.problem)

    def test_files_that_are_none_are_refused(self):
        path = self.directory / proxy_launch.LAUNCH
        for make, expected in (
                (lambda: path.symlink_to('/etc/shadow'), 'symbolic links'),
                (lambda: os.mkfifo(path), 'not a regular file'),
                (path.mkdir, 'not a regular file'),
                (lambda: path.write_text('{'), 'no JSON'),
                (lambda: path.write_text('[' * 100_000), 'no JSON'),
                (lambda: path.write_text('[]'), 'launch.json'),
                (lambda: os.truncate(os.open(
                    path, os.O_CREAT | os.O_WRONLY), 1 << 40),
                 'more than')):
            with self.subTest(expected):
                make()
                self.assertIn(expected, self.read().problem)
                if path.is_dir():
                    path.rmdir()
                else:
                    path.unlink()
        self.assertIn('not there', self.read().problem)

    def test_names_that_are_no_ids_are_ignored(self):
        for name in ('x', f'{ID}x', f'{ID}\n', ID.upper().replace('0', 'A')):
            pathlib.Path(self.top, name).mkdir()
        pathlib.Path(self.top, world.identity_of(2)).symlink_to('/etc')
        pathlib.Path(self.top, world.identity_of(3)).write_text('')
        self.assertEqual({ID}, orders.identities(self.top))
        self.assertIn('directory', orders.read(
            self.top, world.identity_of(2), NUMBERS).problem)

    def test_configuration_has_its_hash(self):
        path = self.directory / proxy_launch.CONFIGURATION
        path.write_bytes(b'global\n')
        self.assertEqual(b'global\n', orders.configuration(
            self.top, ID, orders.digest(b'global\n')))
        self.assertRaises(orders.NotWhole, orders.configuration, self.top, ID,
                          HASH)

    def test_certificates_are_files_of_one_directory(self):
        directory = self.directory / 'bundle'
        directory.mkdir()
        (directory / 'a.pem').write_bytes(b'a')
        self.assertEqual({'a.pem': b'a'}, orders.certificates(
            self.top, ID, 'bundle'))
        (directory / 'b.pem').symlink_to('/etc/shadow')
        self.assertRaises(OSError, orders.certificates, self.top, ID,
                          'bundle')
