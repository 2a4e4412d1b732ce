# SPDX-License-Identifier: Apache-2.0
"""The playbook of switches by real Ansible, with real FRR."""

import pathlib
import re
import subprocess
import sys

import fixtures

from lab.roles import ansible
from octavia_xdp_provider.tests.functional.testbed import command
from octavia_xdp_provider.tests.unit import base

SCRIPT = pathlib.Path(__file__).with_name('playbook_in_namespaces.sh')
INVENTORY = '''\
switches:
  leaf1: {address: 127.0.0.1, as: 65000, connection: local}
machines:
  lb1:
    role: load_balancer
    address: 192.0.2.11
    ports:
    - switch: leaf1
      port: swp1
      addresses: [198.18.1.1/30]
      bgp: {address: 198.18.1.2, as: 65001}
'''


class TestPlaybook(base.TestCase):

    def test_applied_once_made_up_for_and_taken_back(self):
        ansible.install()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (folder / 'inventory.yaml').write_text(INVENTORY)
        done = subprocess.run(
            ['unshare', '--mount', '--net', SCRIPT, folder, sys.executable],
            cwd=command.CHECKOUT, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(0, done.returncode, done.stdout)
        changed = {name: int(count) for name, count in re.findall(
            r'^(\w+): switch leaf1: (\d+) changed$', done.stdout, re.M)}
        self.assertEqual(['first', 'second', 'interrupted', 'released'],
                         list(changed))
        self.assertEqual(0, changed.pop('second'), done.stdout)
        self.assertNotIn(0, changed.values())
        # Both were reloaded each time but the second.
        self.assertEqual(3, (folder / 'ifreload.log').read_text().count(
            '--all'))
        self.assertIn('router bgp 65000 vrf bed1',
                      (folder / 'leased.conf').read_text())
        self.assertNotIn('bed1', (folder / 'released.conf').read_text())
