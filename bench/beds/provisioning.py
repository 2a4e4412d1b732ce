# SPDX-License-Identifier: Apache-2.0
"""Real machines are provisioned by Ansible, with the roles of operators.

The inventory has the hosts of the bed in the groups that the declaration
names; its playbook is deploy/ansible/site.yaml, or any other.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import json
import os
import shlex
import shutil
import subprocess
from typing import Any

from bench import errors
from bench.beds import declaration
from bench.beds import runs
from lab import paths

# That of lab/roles, where deploy/ansible/requirements.txt is installed.
ENVIRONMENT = paths.BUILD / 'ansible'
ROLES = paths.CHECKOUT / 'deploy/ansible/roles'
PLAY_S = 3600
_SHOWN_LINES = 60


def play(lab: runs.RunLab, declared: declaration.Bed,
         options: Mapping[str, Sequence[str]]) -> None:
    """Run the playbook.

    :param options: of ssh, by host.
    :raises errors.BenchError: it failed on a host; with what it says. All of
        it is in build/bench/ansible.log.
    """
    program = _program()
    file = lab.directory / 'inventory.json'
    file.write_text(json.dumps(inventory(declared, options), indent=2))
    log = paths.BUILD / 'bench/ansible.log'
    with open(log, 'w') as output:
        try:
            status = subprocess.run(
                [program, '--inventory', file,
                 declared.provisioning.playbook],
                stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, timeout=PLAY_S, check=False,
                cwd=declared.provisioning.playbook.parent,
                env=_environment(lab)).returncode
        except subprocess.TimeoutExpired:
            status = f'not done after {PLAY_S} s'
    if status:
        end = log.read_text().splitlines()[-_SHOWN_LINES:]
        raise errors.BenchError(
            f'playbook {declared.provisioning.playbook} failed ({status}); '
            f'all of it is in {log}:\n' + '\n'.join(end))


def inventory(declared: declaration.Bed,
              options: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """JSON, which is YAML as well."""
    variables = dict(declared.provisioning.variables)
    if declared.software.version is not None:
        variables['octavia_xdp_version'] = declared.software.version
    return {
        'all': {'vars': variables, 'hosts': {
            name: {**_connection(host.access, options[name]),
                   **host.access.variables}
            for name, host in declared.hosts.items()}},
        **{group: {'hosts': {name: {} for name in names}}
           for group, names in declared.provisioning.groups.items()},
    }


def _connection(access, options):
    return {
        'ansible_host': access.address,
        'ansible_port': access.port,
        'ansible_user': access.user,
        'ansible_become': access.user != 'root',
        'ansible_python_interpreter': '/usr/bin/python3',
        # Through the bed's own connection, which checks the host's key.
        'ansible_ssh_common_args': shlex.join(options),
    }


def _program():
    found = ENVIRONMENT / 'bin/ansible-playbook'
    program = found if found.exists() else shutil.which('ansible-playbook')
    if program is None:
        raise errors.BenchError(
            'no ansible-playbook: "tools/uv venv build/ansible" and '
            '"tools/uv pip install --python build/ansible/bin/python '
            '--requirement deploy/ansible/requirements.txt" install it')
    return program


def _environment(lab):
    return {
        **os.environ,
        'PATH': f'{ENVIRONMENT}/bin:{os.environ["PATH"]}',
        'ANSIBLE_HOME': str(lab.directory / 'ansible'),
        'ANSIBLE_NOCOLOR': '1',
        'ANSIBLE_HOST_KEY_CHECKING': 'True',
        'ANSIBLE_SSH_ARGS': '-o ControlMaster=no',
        'ANSIBLE_PIPELINING': 'True',
        'ANSIBLE_ROLES_PATH': str(ROLES),
        'ANSIBLE_TIMEOUT': '120',
    }
