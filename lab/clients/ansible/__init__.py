# SPDX-License-Identifier: Apache-2.0
"""Ansible's modules openstack.cloud, in their own virtual environment."""

import json
import pathlib

from lab import cloud
from lab import paths
from lab import processes
from lab.clients import install

SOURCE = pathlib.Path(__file__).parent
PLAYBOOK = SOURCE / 'web.yaml'
PLACE = install.BUILT / 'ansible'
RUN_S = 300


def make():
    """Install the packages of requirements.txt.

    :raises LabError: they cannot be installed.
    """
    install.python(PLACE, SOURCE / 'requirements.txt')


def run(lab, user=cloud.TENANT, **variables):
    """Run the playbook, and return the names of tasks that changed something.

    :param variables: those of the playbook, without "web_".
    :raises LabError: a task failed; has its output.
    """
    extra = {f'web_{name}': value for name, value in variables.items()}
    environment = cloud.environment(lab, user)
    environment.update(
        ANSIBLE_LOCALHOST_WARNING='false',
        ANSIBLE_STDOUT_CALLBACK='ansible.posix.json',
        ANSIBLE_PYTHON_INTERPRETER=str(PLACE / 'bin/python'))
    done = processes.run(
        lab, paths.CONTROL,
        [PLACE / 'bin/ansible-playbook', '--inventory', 'localhost,',
         '--extra-vars', json.dumps(extra), PLAYBOOK],
        env=environment, timeout=RUN_S, check=False)
    if done.returncode:
        raise paths.LabError(f'ansible-playbook failed ({done.returncode}):\n'
                             f'{done.stderr}\n{done.stdout[-4000:]}')
    [play] = json.loads(done.stdout)['plays']
    return [task['task']['name'] for task in play['tasks']
            if any(host.get('changed') for host in task['hosts'].values())]
