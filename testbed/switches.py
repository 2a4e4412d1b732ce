# SPDX-License-Identifier: Apache-2.0
"""Configures switches with Ansible."""

from collections.abc import Mapping
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from bench import errors
from testbed import configuration
from testbed import inventory

PLAYBOOK = pathlib.Path(__file__).parent / 'playbooks/switches.yaml'
# Where "make roles" and tools of the checkout install it.
_BUILT = pathlib.Path(__file__).parents[1] / 'build/ansible/bin'
TIMEOUT_S = 1800
_KNOWN_HOSTS = 'known_hosts'
_RECAP = re.compile(r'^(\S+)\s*: ok=\d+\s+changed=(\d+)', re.MULTILINE)


def apply(files: Mapping[str, str], known: inventory.Inventory,
          folder: pathlib.Path, program: str | None) -> dict[str, int]:
    """Apply the files to all switches.

    :param folder: replaced by a folder with the input of Ansible.
    :param program: ansible-playbook; None to search for it.
    :returns: numbers of tasks that changed something, by switch.
    :raises errors.BenchError: a switch could not be changed completely.
    """
    if not known.switches:
        return {}
    _write(files, known, folder)
    program = program or _program()
    try:
        done = subprocess.run(
            [program, '--inventory', folder / 'hosts.json', PLAYBOOK],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors='replace',
            timeout=TIMEOUT_S, env={
                **os.environ, 'ANSIBLE_NOCOLOR': '1', 'LC_ALL': 'C.UTF-8',
                'ANSIBLE_HOME': str(folder / 'ansible'),
                'ANSIBLE_HOST_KEY_CHECKING': 'True',
                'ANSIBLE_PIPELINING': 'True'})
    except OSError as error:
        raise errors.BenchError(f'{program}: {error.strerror}') from error
    except subprocess.TimeoutExpired as error:
        raise errors.BenchError(
            f'Ansible did not end within {TIMEOUT_S} s; look at the switches '
            'and sync again') from error
    if done.returncode:
        raise errors.BenchError(
            'the switches could not be changed; mend what Ansible says and '
            f'sync again:\n{done.stdout[-4000:].strip()}')
    changed = {name: int(count) for name, count
               in _RECAP.findall(done.stdout)}
    missing = known.switches.keys() - changed.keys()
    if missing:
        raise errors.BenchError(f'Ansible did not reach {sorted(missing)}:\n'
                                f'{done.stdout[-4000:].strip()}')
    return changed


def _program() -> str:
    program = shutil.which('ansible-playbook',
                           path=f'{_BUILT}{os.pathsep}{os.environ["PATH"]}')
    if program is None:
        raise errors.BenchError(
            'ansible-playbook is missing: install what '
            'deploy/ansible/requirements.txt lists')
    return program


def _write(files, known, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    hosts = {}
    for switch in known.switches.values():
        own = folder / switch.name
        own.mkdir()
        for name in configuration.FRR, configuration.INTERFACES:
            (own / name).write_text(
                files[f'{configuration.SWITCHES}/{switch.name}/{name}'])
        hosts[switch.name] = {
            'ansible_host': switch.address,
            'ansible_user': switch.user,
            'ansible_become': switch.user != 'root',
            'ansible_connection': switch.connection,
            'ansible_python_interpreter': '/usr/bin/python3',
            'frr_file': str(own / configuration.FRR),
            'interfaces_file': str(own / configuration.INTERFACES),
            **_host_key(switch, own)}
    (folder / 'hosts.json').write_text(json.dumps(
        {'switches': {'hosts': hosts}}, indent=1))


def _host_key(switch, own):
    """Return variables that make ssh accept only the declared host key."""
    if switch.host_key is None:
        return {}
    path = own / _KNOWN_HOSTS
    path.write_text(f'{switch.address} {switch.host_key}\n')
    # ssh parses the value like a line of its configuration.
    quoted = str(path).replace('%', '%%')
    return {'ansible_ssh_common_args': shlex.join([
        '-o', f'UserKnownHostsFile="{quoted}"',
        '-o', 'GlobalKnownHostsFile=none',
        '-o', 'StrictHostKeyChecking=yes'])}
