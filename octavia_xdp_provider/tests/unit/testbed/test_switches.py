# SPDX-License-Identifier: Apache-2.0
"""Input of Ansible for switches, and how its answers are handled."""

import json
import pathlib
import sys

import fixtures

from bench import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.testbed import samples
from testbed import configuration
from testbed import inventory
from testbed import switches

KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE8 root@leaf1'
# Instead of Ansible: records its environment and exits as told.
_PROGRAM = '''\
#!{python}
import json, os
with open({seen!r}, 'w') as file:
    json.dump(dict(os.environ), file)
print({said!r})
raise SystemExit({status})
'''


class TestSwitches(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.own = self.folder / 'a %h folder'

    def apply(self, more='', said='leaf1 : ok=3 changed=2 failed=0',
              status=0):
        known = inventory.load(samples.write(
            self.folder, samples.TEXT.replace('as: 65000', f'as: 65000{more}',
                                              1)))
        program = self.folder / 'ansible-playbook'
        program.write_text(_PROGRAM.format(
            python=sys.executable, seen=str(self.folder / 'seen'), said=said,
            status=status))
        program.chmod(0o700)
        return switches.apply(configuration.render([], known), known,
                              self.own, str(program))

    def host(self):
        hosts = json.loads((self.own / 'hosts.json').read_text())
        return hosts['switches']['hosts']['leaf1']

    def test_host_keys_are_checked_whatever_the_environment_says(self):
        self.useFixture(fixtures.EnvironmentVariable(
            'ANSIBLE_HOST_KEY_CHECKING', 'False'))
        self.assertEqual({'leaf1': 2}, self.apply())
        seen = json.loads((self.folder / 'seen').read_text())
        self.assertEqual('True', seen['ANSIBLE_HOST_KEY_CHECKING'])
        # Those that the user knows.
        self.assertNotIn('ansible_ssh_common_args', self.host())

    def test_a_declared_host_key_is_the_only_one(self):
        self.apply(f", host_key: '{KEY}'")
        path = self.own / 'leaf1/known_hosts'
        self.assertEqual(f'192.0.2.2 {KEY}\n', path.read_text())
        words = self.host()['ansible_ssh_common_args']
        quoted = str(path).replace('%', '%%')
        self.assertEqual(
            f"-o 'UserKnownHostsFile=\"{quoted}\"' "
            '-o GlobalKnownHostsFile=none -o StrictHostKeyChecking=yes',
            words)

    def test_what_ansible_says_of_a_failure_is_shown(self):
        for said, status, shown in (
                ('Host key verification failed.', 4, 'Host key verification'),
                ('leaf2 : ok=3 changed=2', 0, "did not reach ['leaf1']")):
            error = self.assertRaises(errors.BenchError, self.apply,
                                      said=said, status=status)
            self.assertIn(shown, str(error))
