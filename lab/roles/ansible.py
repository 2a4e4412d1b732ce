# SPDX-License-Identifier: Apache-2.0
"""Ansible and its linter, in their own virtual environment."""

import os
import re

from lab import demo_steps
from lab import paths
from lab.packages import commands
from lab.roles import hosts

PLAYBOOKS = paths.CHECKOUT / 'deploy/ansible'
REQUIREMENTS = PLAYBOOKS / 'requirements.txt'
ENVIRONMENT = paths.BUILD / 'ansible'
LOG = hosts.FOLDER / 'ansible.log'
_RECAP = re.compile(r'^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)'
                    r'\s+failed=(\d+)', re.M)


def install():
    """Install the pinned packages, and return Ansible's version."""
    uv = paths.CHECKOUT / 'tools/uv'
    python = ENVIRONMENT / 'bin/python'
    if not python.exists():
        commands.run(uv, 'venv', '--python', paths.VENV / 'bin/python',
                     ENVIRONMENT)
    commands.run(uv, 'pip', 'install', '--python', python, '--requirement',
                 REQUIREMENTS)
    return commands.run(ENVIRONMENT / 'bin/ansible', '--version',
                        **_environment()).split('\n')[0]


def _environment():
    return {
        'PATH': f'{ENVIRONMENT}/bin:{os.environ["PATH"]}',
        'ANSIBLE_HOME': str(paths.BUILD / 'ansible-home'),
        'ANSIBLE_NOCOLOR': '1',
    }


def _connections(lab):
    return {
        'ANSIBLE_HOST_KEY_CHECKING': 'False',
        'ANSIBLE_PRIVATE_KEY_FILE': str(hosts.KEY),
        'ANSIBLE_SSH_COMMON_ARGS': '-F none -o UserKnownHostsFile=/dev/null',
        # Processes of persistent connections end with the namespace. The path
        # of their sockets must be short.
        'ANSIBLE_SSH_ARGS': '-o ControlMaster=auto -o ControlPersist=600',
        'ANSIBLE_SSH_CONTROL_PATH_DIR': str(lab.run_directory),
        'ANSIBLE_PIPELINING': 'True',
        # For connections on a busy machine.
        'ANSIBLE_TIMEOUT': '120',
    }


def lint():
    """Run ansible-lint with its strictest profile."""
    output = commands.run(
        ENVIRONMENT / 'bin/ansible-lint', '--offline', '--nocolor',
        '--profile', 'production', '.', cwd=PLAYBOOKS, **_environment())
    return re.findall('^Passed.*$', output, re.M)[-1]


def play(lab, playbook, *options):
    """Run a playbook on all hosts.

    :returns: {host: number of changes}.
    :raises demo_steps.StepFailed: a task failed.
    """
    text = _run(lab, playbook, *options)
    return {name: int(changed) for name, _, changed, *_
            in _RECAP.findall(text)}


def play_to_fail(lab, playbook, *options):
    """Run a playbook that must fail.

    :returns: the hosts on which tasks ran, and the output.
    """
    try:
        text = _run(lab, playbook, *options)
    except demo_steps.StepFailed as error:
        text = LOG.read_text()
        failed = [name for name, *_, bad in _RECAP.findall(text) if bad != '0']
        demo_steps.expect(failed, str(error))
        return {name for name, ok, *_ in _RECAP.findall(text)
                if ok != '0'}, text
    raise demo_steps.StepFailed(f'{playbook} did not fail:\n{text[-3000:]}')


def _run(lab, playbook, *options):
    words = ['nsenter', f'--net=/run/netns/{lab.namespace(paths.CONTROL)}',
             ENVIRONMENT / 'bin/ansible-playbook', '--inventory',
             hosts.INVENTORY, PLAYBOOKS / playbook, *options]
    return commands.run(*words, cwd=hosts.FOLDER, log=LOG,
                        **_environment(), **_connections(lab))
