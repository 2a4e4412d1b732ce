# SPDX-License-Identifier: Apache-2.0
"""The inventory of a bed's machines that a playbook gets."""

import json
import pathlib
import shutil
from unittest import mock

import fixtures

from bench import errors
from bench.beds import packages
from bench.beds import provisioning
from bench.beds import reading
from bench.declarations import document
from octavia_xdp_provider.tests.unit import base

BED = '''\
name: machines
provider: ssh
software: {version: "1.2"}
ssh:
  playbook: site.yaml
  known_hosts: hosts
  groups: {lb_nodes: [lb], all_of_them: [gen, lb, member]}
  variables: {octavia_xdp_node_as: 65010}
hosts:
  gen:
    role: generator
    ssh: {address: 192.0.2.11, interfaces: {front: ens1}}
  lb:
    role: load_balancer
    ssh:
      address: 192.0.2.12
      port: 2222
      user: bench
      interfaces: {front: ens1, back: ens2}
      variables: {octavia_xdp_address: 198.19.0.2}
  member:
    role: member
    ssh: {address: 192.0.2.13, interfaces: {back: ens1}}
links:
  front: {ends: [gen, lb], networks: [198.19.0.0/30]}
  back: {ends: [lb, member], networks: [198.19.1.0/30]}
'''
OPTIONS = {name: ['-o', 'ControlPath=/run/a b', '-p', '22']
           for name in ('gen', 'lb', 'member')}


class TestInventory(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in 'site.yaml', 'hosts':
            (self.folder / name).write_text('')

    def read(self, text=BED):
        return reading.from_document(document.parse(
            text, self.folder / 'bed.yaml', reading.SCHEMA))

    def test_hosts_groups_and_variables(self):
        inventory = json.loads(json.dumps(
            provisioning.inventory(self.read(), OPTIONS)))
        self.assertEqual(
            {'octavia_xdp_node_as': 65010, 'octavia_xdp_version': '1.2'},
            inventory['all']['vars'])
        self.assertEqual({'lb': {}}, inventory['lb_nodes']['hosts'])
        self.assertEqual({'gen', 'lb', 'member'},
                         set(inventory['all_of_them']['hosts']))
        lb = inventory['all']['hosts']['lb']
        self.assertEqual(
            ('192.0.2.12', 2222, 'bench', True, '198.19.0.2'),
            (lb['ansible_host'], lb['ansible_port'], lb['ansible_user'],
             lb['ansible_become'], lb['octavia_xdp_address']))
        self.assertEqual("-o 'ControlPath=/run/a b' -p 22",
                         lb['ansible_ssh_common_args'])
        self.assertFalse(inventory['all']['hosts']['gen']['ansible_become'])

    def test_what_follows_from_the_bed(self):
        """Operators' variables; those that are declared replace them."""
        text = BED.replace('  playbook: site.yaml\n', '').replace(
            '  groups: {lb_nodes: [lb], all_of_them: [gen, lb, member]}\n',
            '  roles: {load_balancer: lb_node, member: member}\n')
        bed = self.read(text)
        inventory = provisioning.inventory(bed, OPTIONS)
        self.assertEqual({'hosts': {'lb': {}}}, inventory['bed_load_balancer'])
        self.assertEqual({'hosts': {'member': {}}}, inventory['bed_member'])
        hosts = inventory['all']['hosts']
        self.assertEqual(
            ('lb', ['ens2'], '198.19.0.2'),
            tuple(hosts['lb'][f'octavia_xdp_{name}']
                  for name in ('host', 'uplinks', 'address')))
        self.assertEqual(('ens1', '198.19.1.2'), (
            hosts['member']['octavia_xdp_interface'],
            hosts['member']['octavia_xdp_address']))
        bed = self.read(text.replace('{octavia_xdp_node_as: 65010}',
                                     '{octavia_xdp_host: same}'))
        self.assertNotIn('octavia_xdp_host', provisioning.inventory(
            bed, OPTIONS)['all']['hosts']['lb'])

    def test_packages_are_copied_to_who_installs_them(self):
        bed = self.read(BED.replace(
            'all_of_them: [gen, lb, member]', 'members: [member]'))
        inventory = provisioning.inventory(bed, OPTIONS, packages.Packages(
            self.folder, '0.2', {}))
        self.assertEqual({'hosts': {'lb': {}, 'member': {}}},
                         inventory['bed_packages'])
        self.assertEqual(('0.2', packages.REPOSITORY), tuple(
            inventory['all']['vars'][f'octavia_xdp_{name}']
            for name in ('version', 'repository')))

    def test_the_version_is_left_to_the_playbook(self):
        inventory = provisioning.inventory(self.read(BED.replace(
            'software: {version: "1.2"}\n', '')), OPTIONS)
        self.assertNotIn('octavia_xdp_version', inventory['all']['vars'])

    def test_without_ansible(self):
        lab = mock.Mock(directory=self.folder)
        with (mock.patch.object(provisioning, 'ENVIRONMENT', self.folder),
              mock.patch.object(shutil, 'which', lambda _: None)):
            error = self.assertRaises(errors.BenchError, provisioning.play,
                                      lab, self.read(), OPTIONS, None)
        self.assertIn('no ansible-playbook', str(error))
        self.assertIn('deploy/ansible/requirements.txt', str(error))
