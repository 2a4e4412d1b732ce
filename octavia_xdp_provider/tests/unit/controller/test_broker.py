# SPDX-License-Identifier: Apache-2.0

import base64
import hashlib

from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.tests.unit import base

TEMPLATE = 'rabbit://octavia-xdp-controller:s@b1:5671,c:d@b2:5671/{vhost}'


class TestBroker(base.TestCase):

    def test_nodes_user_may_only_use_its_own_virtual_host(self):
        permissions = broker.definitions(
            broker.for_control('c', 'd'), broker.for_node('lb1', 'x'),
            broker.for_node('lb2', 'y'))['permissions']
        of_nodes = {(entry['user'], entry['vhost']) for entry in permissions
                    if entry['user'].startswith('octavia-xdp-node-')}
        self.assertEqual({('octavia-xdp-node-lb1', 'octavia-xdp-node-lb1'),
                          ('octavia-xdp-node-lb2', 'octavia-xdp-node-lb2')},
                         of_nodes)

    def test_hypervisor_and_node_of_one_name_share_nothing(self):
        grants = broker.for_host('x', 'p'), broker.for_node('x', 'q')
        users = {entry['user'] for entry in broker.definitions(
            *grants)['permissions']} - {broker.CONTROLLER_USER}
        self.assertEqual({'octavia-xdp-host-x', 'octavia-xdp-node-x'}, users)
        for entry in broker.definitions(*grants)['permissions']:
            self.assertIn(entry['user'], (entry['vhost'],
                                          broker.CONTROLLER_USER))

    def test_commands_and_definitions_grant_the_same(self):
        grants = (broker.for_control('c', 'd'), broker.for_node('lb1', 'x'))
        definitions = broker.definitions(*grants)
        commands = [command.words for grant in grants
                    for command in broker.commands(grant)]
        self.assertEqual(
            {(entry['vhost'], entry['user'], entry['configure'],
              entry['write'], entry['read'])
             for entry in definitions['permissions']},
            {command[2:] for command in commands
             if command[0] == 'set_permissions'})
        self.assertEqual(
            {entry['name'] for entry in definitions['vhosts']},
            {command[1] for command in commands
             if command[0] == 'add_vhost'})
        self.assertEqual(
            {entry['name'] for entry in definitions['users']},
            {command[1] for command in commands
             if command[0] == 'add_user'})
        for name in ('policies', 'parameters'):
            self.assertEqual(['octavia-xdp-node-lb1'],
                             [entry['vhost'] for entry in definitions[name]])

    def test_definitions_hold_salted_hashes_of_passwords(self):
        first, second = (broker.definitions(broker.for_node('lb1', 'secret'))
                         ['users'][0]['password_hash'] for _ in range(2))
        self.assertNotEqual(first, second)
        raw = base64.b64decode(first)
        self.assertEqual(hashlib.sha256(raw[:4] + b'secret').digest(),
                         raw[4:])

    def test_node_uses_the_same_brokers_with_its_own_user(self):
        self.assertEqual(
            'rabbit://octavia-xdp-node-lb1:a%2Fb@b1:5671,'
            'octavia-xdp-node-lb1:a%2Fb@b2:5671/octavia-xdp-node-lb1',
            broker.node_transport_url(TEMPLATE, 'lb1', 'a/b'))

    def test_ambiguous_host_names_are_refused(self):
        for name in ('lb1', 'a', 'node-1.example.org', 'n' * 64):
            self.assertTrue(broker.HOST_PATTERN.fullmatch(name), name)
        for name in ('', '.', 'a/b', 'a b', '-p', 'a\n', 'n' * 65, 'ä'):
            self.assertFalse(broker.HOST_PATTERN.fullmatch(name), name)


class TestPassword(base.TestCase):

    def test_password_needs_no_quoting(self):
        for _ in range(1000):
            self.assertRegex(broker.new_password(), '^[0-9a-z]{32,}$')
