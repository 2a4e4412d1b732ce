# SPDX-License-Identifier: Apache-2.0
"""The command, as a process of its own, on a folder of a test's."""

import pathlib
import subprocess
import sys

from octavia_xdp_provider.tests.unit.testbed import samples
import testbed

CHECKOUT = pathlib.Path(testbed.__file__).parents[1]
PROGRAM = CHECKOUT / 'tools/octavia-xdp-testbed'
# Stands in for Ansible where no switch is: takes what a switch would get.
_STAND_IN = '''\
#!{python}
import json, pathlib, shutil, sys
inventory = json.loads(pathlib.Path(sys.argv[2]).read_text())
for name, host in inventory['switches']['hosts'].items():
    own = pathlib.Path({switches!r}) / name
    own.mkdir(parents=True, exist_ok=True)
    changed = 0
    for key in 'frr_file', 'interfaces_file':
        source = pathlib.Path(host[key])
        target = own / source.name
        if not target.exists() or target.read_text() != source.read_text():
            shutil.copy(source, target)
            changed += 1
    print(f'{{name}} : ok=3 changed={{changed}} unreachable=0 failed=0')
'''


class Command:
    """The command with a folder, an inventory, and a stand-in for Ansible.

    :ivar switches: where the stand-in leaves what switches get.
    """

    def __init__(self, folder, text=samples.TEXT):
        self.folder = folder
        self.switches = folder / 'of-switches'
        folder.mkdir(exist_ok=True)
        samples.write(folder, text)
        self.ansible = folder / 'stand-in'
        self.ansible.write_text(_STAND_IN.format(
            python=sys.executable, switches=str(self.switches)))
        self.ansible.chmod(0o700)

    def words(self, *words, owner='alice', module=()):
        """The whole command.

        :param module: of Python, with its arguments, in place of it.
        """
        program = [sys.executable, '-m', *module] if module else [PROGRAM]
        return [*program, f'--folder={self.folder}', f'--owner={owner}',
                f'--ansible-playbook={self.ansible}', *words]

    def start(self, *words, owner='alice', module=(), **more):
        """Its process."""
        return subprocess.Popen(
            self.words(*words, owner=owner, module=module), cwd=CHECKOUT,
            text=True, **{'stdin': subprocess.DEVNULL,
                          'stdout': subprocess.PIPE,
                          'stderr': subprocess.STDOUT, **more})

    def run(self, *words, given=None, **more):
        """(exit status, what it printed)."""
        process = self.start(*words, **more, **(
            {} if given is None else {'stdin': subprocess.PIPE}))
        said, _ = process.communicate(given, timeout=120)
        return process.returncode, said
