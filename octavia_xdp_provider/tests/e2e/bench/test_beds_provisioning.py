# SPDX-License-Identifier: Apache-2.0
"""Machines are provisioned by a playbook before they are a bed.

The roles of operators are run against such machines by ``make roles``.
"""

from bench import errors
from bench.beds import reading
from bench.beds import ssh
from bench.declarations import document
from lab import paths
from lab.roles import ansible
from octavia_xdp_provider.tests.functional.bench import ssh_bed

PLAYBOOK = '''\
- name: Machines of the bed
  hosts: lb_nodes
  gather_facts: true
  tasks:
    - name: A version is asked for
      ansible.builtin.assert:
        that: octavia_xdp_version == "1.2"
    - name: Leave a file
      ansible.builtin.copy:
        content: "{{ inventory_hostname }} {{ mine }} {{ all_of }}\\n"
        dest: "{{ folder }}/{{ inventory_hostname }}.made"
        mode: "0644"
    - name: Fail where that is wanted
      ansible.builtin.command: "false"
      when: failing
'''


class TestProvisioning(ssh_bed.BedCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ansible.install()

    def declared(self, failing):
        folder = self.machines.lab.directory
        (folder / 'site.yaml').write_text(PLAYBOOK)
        text = self.text().replace('ssh: {key:', f'''\
software: {{version: "1.2"}}
ssh:
  playbook: site.yaml
  groups: {{lb_nodes: [lb, sink]}}
  variables: {{folder: {folder}, all_of: everyone, mine: nobody,
              failing: {failing}}}
  key:''', 1).replace('/operator}\n', '/operator\n', 1).replace(
            'interfaces: {front: ens1, back: ens2}',
            'interfaces: {front: ens1, back: ens2}\n'
            '      variables: {mine: lb-only}')
        return reading.from_document(document.parse(
            text, folder / 'bed.yaml', reading.SCHEMA))

    def made(self):
        return {path.name: path.read_text() for path in
                self.machines.lab.directory.glob('*.made')}

    def remove_made(self):
        for path in self.machines.lab.directory.glob('*.made'):
            path.unlink()

    def test_a_playbook_runs_before_the_bed_is_there(self):
        self.addCleanup(self.remove_made)
        with self.inside(), ssh.Provider().build(
                self.declared('false'), 'provisioned') as bed:
            self.assertEqual({'lb.made': 'lb lb-only everyone\n',
                              'sink.made': 'sink nobody everyone\n'},
                             self.made())
            bed.hosts['gen'].run(['ping', '-c', '1', '-W', '5',
                                  '203.0.113.1'])

    def test_a_playbook_that_fails(self):
        self.addCleanup(self.remove_made)
        before = self.settings()
        with self.inside():
            error = self.assertRaises(
                errors.BenchError, ssh.Provider().build(
                    self.declared('true'), 'provisioned').__enter__)
        for part in 'site.yaml failed (2)', 'Fail where that is wanted':
            self.assertIn(part, str(error))
        log = paths.BUILD / 'bench/ansible.log'
        self.assertIn('Fail where that is wanted', log.read_text())
        self.assertEqual([], self.folders())
        self.assertEqual(before, self.settings())
