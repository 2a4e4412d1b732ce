# SPDX-License-Identifier: Apache-2.0
"""Declarations of beds of machines that are reached by ssh."""

import pathlib

import fixtures

from bench import errors
from octavia_xdp_provider.tests.unit.bench import declared

SSH = declared.GOOD.replace('  lb:\n', '  lb1:\n').replace(
    '    count: 2\n', '    ssh: {address: 192.0.2.11, host_key: ssh-ed25519 '
    'AAAA, interfaces: {uplink: ens1}}\n').replace(
    '  sink:\n', '''\
  lb2:
    role: load_balancer
    ssh: {address: 192.0.2.12, port: 2222, interfaces: {uplink: ens1}}
  sink:
    ssh: {address: sink.example, interfaces: {back: ens1}}
''').replace('role: generator', '''role: generator
    ssh: {address: 192.0.2.1, interfaces: {front: ens1}}''').replace(
    'role: router', '''role: router
    ssh:
      address: 192.0.2.2
      user: admin
      interfaces: {front: ens1, uplink1: ens2, uplink2: ens3, back: ens4}
''').replace('[router, lb]\n    networks',
             '[router, lb1]\n    networks').replace(
    'via: lb,', 'via: [lb1, lb2],') + '''
provider: ssh
ssh:
  known_hosts: hosts
  user: root
  playbook: site.yaml
  groups: {lb_nodes: [lb1, lb2]}
'''
ROLES = ('  playbook: site.yaml\n  groups: {lb_nodes: [lb1, lb2]}\n',
         '  roles: {load_balancer: lb_node}\n'
         '  variables: {octavia_xdp_node_as: 65010}\n')


class TestSsh(declared.BedCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in 'hosts', 'site.yaml':
            (self.folder / name).write_text('')
        (self.folder / 'debs').mkdir()
        self.path = self.folder / 'bed.yaml'

    def two_links(self, text):
        return text.replace(
            'uplink1: ens2, uplink2: ens3', 'uplink: ens2, other: ens3'
        ).replace('ens1}}\n  sink', 'ens1}}\n  sink').replace(
            "12, port: 2222, interfaces: {uplink",
            "12, port: 2222, interfaces: {other").replace(
            '  back:\n    ends', '  other:\n    ends: [router, lb2]\n'
            "    networks: [198.19.3.0/24, '2001:db8:3::/64']\n"
            '  back:\n    ends')

    def test_access(self):
        bed = self.read(self.two_links(SSH), path=self.path)
        access = bed.hosts['router'].access
        self.assertEqual(('192.0.2.2', 22, 'admin', None, 'ens2'), (
            access.address, access.port, access.user, access.host_key,
            access.interfaces['uplink']))
        self.assertEqual((2222, 'root'), (bed.hosts['lb2'].access.port,
                                          bed.hosts['lb2'].access.user))
        self.assertEqual('ssh-ed25519 AAAA',
                         bed.hosts['lb1'].access.host_key)
        self.assertEqual(self.folder / 'hosts', bed.provisioning.known_hosts)
        self.assertEqual({'lb_nodes': ('lb1', 'lb2')},
                         bed.provisioning.groups)

    def test_roles(self):
        bed = self.read(self.two_links(SSH.replace(*ROLES)), path=self.path)
        self.assertEqual({'load_balancer': 'lb_node'}, bed.provisioning.roles)
        self.assertTrue(bed.provisioning.installs())
        bed = self.read(self.two_links(SSH.replace(
            *ROLES)) + 'software: {packages: debs}\n', path=self.path)
        self.assertEqual(self.folder / 'debs', bed.software.packages)

    def refused(self, where, changes, *parts):
        self.check_refused(self.two_links(SSH), where, changes, parts,
                           self.path)

    def test_how_a_machine_is_reached(self):
        self.refused('gen:', [(
            '    ssh: {address: 192.0.2.1, interfaces: {front: ens1}}\n', '')],
            'needs "ssh" of host "gen"')
        self.refused('interfaces:', [('front: ens1, uplink: ens2',
                                      'uplink: ens2')],
                     'host "router" has an end "front"')
        self.refused('interfaces:', [('back: ens4', 'back: ens4, mgmt: ens5')],
                     'no end "mgmt"', 'front, uplink, other, back')
        self.refused('interfaces:', [('back: ens4', 'back: ens1')],
                     '"router" has interface ens1 at two links')
        self.refused('ssh: {address: 192.0.2.2',
                     [('192.0.2.12, port: 2222', '192.0.2.2')],
                     '"lb2" is the machine of "router" as well')
        self.refused('ssh: {', [('  known_hosts: hosts\n', '')],
                     'nobody knows')
        self.refused('known_hosts:', [('known_hosts: hosts',
                                       'known_hosts: none')], 'none')
        self.refused('key:', [('user: root', 'user: root\n  key: none')],
                     'no file', 'private key')
        self.refused('ssh: {', [('2222', '2222, key: none')], 'private key')
        self.refused('user:', [('user: admin', 'user: -oProxyCommand')],
                     'name of a user')
        self.refused('receive_xdp:', [('mtu: 1600', 'receive_xdp: yes')],
                     '"receive_xdp"')

    def test_what_provisions_machines(self):
        self.refused('groups:', [('nodes: [lb1, lb2]', 'nodes: [lb1, lb9]')],
                     'no host "lb9"')
        self.refused('groups:', [('  playbook: site.yaml\n', '')],
                     '"groups" are of a "playbook"')
        self.refused('playbook:', [('site.yaml', 'none.yaml')], 'none.yaml')
        self.refused('playbook:', [('  playbook:', '  roles: {load_balancer: '
                                    'lb_node}\n  playbook:')],
                     'two ways', 'either')
        for old, new, said in (
                ('lb_node}', 'lb_nodes}', 'no role "lb_nodes"; it has: '),
                ('load_balancer: lb', 'sink: lb', None),
                ('load_balancer: lb', 'member: lb', 'no host has the role '
                 'member'),
                ('load_balancer: lb', 'clients: lb', '"clients"')):
            roles = ROLES[1].replace(old, new)
            if said is None:
                self.read(self.two_links(SSH.replace(ROLES[0], roles)),
                          path=self.path)
            else:
                self.refused('roles:', [(ROLES[0], roles)], said)
        self.refused('variables:', [(ROLES[0], '  variables: {a: 1}\n')],
                     '"variables" are of "roles"')
        self.refused('ssh: {', [(ROLES[0], ''), ('port: 2222', 'variables: '
                                                 '{a: 1}')],
                     '"variables" are of "roles"')

    def test_what_is_under_test(self):
        end = '\nsoftware:\n'
        for said, text in (('version', '  version: "1.0"\n'),
                           ('packages', '  packages: debs\n'),
                           ('revision', '  revision: HEAD\n')):
            changes = ('\nssh:\n', f'{end}{text}ssh:\n')
            self.refused(f'{said}:', [changes, (ROLES[0], '')],
                         f'"{said}" is not installed by anything')
            self.refused('variables:', [changes, (
                'groups:', 'variables: {octavia_xdp_version: 2}\n  groups:')],
                f'octavia_xdp_version follows from "{said}"')
        self.refused('packages:', [(
            '\nssh:\n', f'{end}  packages: debs\n  version: "1.0"\nssh:\n')],
            'version and packages', 'declare either')
        self.refused('revision:', [(
            '\nssh:\n', f'{end}  revision: no-such-one\nssh:\n')],
            'no-such-one: no commit of')
        self.refused('packages:', [(
            '\nssh:\n', f'{end}  packages: none\nssh:\n')], 'no folder')

    def test_how_one_of_several_hosts_is_reached(self):
        error = self.assertRaises(
            errors.DeclarationError, self.read, declared.GOOD.replace(
                '    count: 2\n', '    count: 2\n    ssh: {address: a, '
                'interfaces: {uplink: ens1}}\n'))
        self.assertIn('several hosts', error.text)
        self.assertEqual(16, error.line)
