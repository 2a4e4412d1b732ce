# SPDX-License-Identifier: Apache-2.0
"""What a playbook is told of the machines of a bed."""

import json
import pathlib
import shutil
from unittest import mock

import fixtures

from bench import errors
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
        found = json.loads(json.dumps(
            provisioning.inventory(self.read(), OPTIONS)))
        self.assertEqual({'octavia_xdp_node_as': 65010,
                          'octavia_xdp_version': '1.2'}, found['all']['vars'])
        self.assertEqual({'lb': {}}, found['lb_nodes']['hosts'])
        self.assertEqual({'gen', 'lb', 'member'},
                         set(found['all_of_them']['hosts']))
        lb = found['all']['hosts']['lb']
        self.assertEqual(
            ('192.0.2.12', 2222, 'bench', True, '198.19.0.2'),
            (lb['ansible_host'], lb['ansible_port'], lb['ansible_user'],
             lb['ansible_become'], lb['octavia_xdp_address']))
        self.assertEqual("-o 'ControlPath=/run/a b' -p 22",
                         lb['ansible_ssh_common_args'])
        self.assertFalse(found['all']['hosts']['gen']['ansible_become'])

    def test_the_version_is_left_to_the_playbook(self):
        found = provisioning.inventory(self.read(BED.replace(
            'software: {version: "1.2"}\n', '')), OPTIONS)
        self.assertNotIn('octavia_xdp_version', found['all']['vars'])

    def test_without_ansible(self):
        lab = mock.Mock(directory=self.folder)
        with (mock.patch.object(provisioning, 'ENVIRONMENT', self.folder),
              mock.patch.object(shutil, 'which', lambda _: None)):
            error = self.assertRaises(errors.BenchError, provisioning.play,
                                      lab, self.read(), OPTIONS)
        self.assertIn('no ansible-playbook', str(error))
        self.assertIn('deploy/ansible/requirements.txt', str(error))
