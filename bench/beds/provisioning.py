# SPDX-License-Identifier: Apache-2.0
"""Provisions real machines by Ansible, with the roles of operators.

A declaration maps roles of hosts in the bed to roles of deploy/ansible, or
names a playbook and the groups of its inventory. Packages under test are first
copied to the machines, as a repository.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import ipaddress
import json
import os
import pathlib
import shlex
import shutil
import subprocess
from typing import Any

from bench import errors
from bench.beds import declaration
from bench.beds import interface
from bench.beds import packages
from bench.beds import real_machines
from lab import paths

# The environment of lab/roles with deploy/ansible/requirements.txt.
ENVIRONMENT = paths.BUILD / 'ansible'
LOG = paths.BUILD / 'bench/ansible.log'
PLAY_S = 3600
_SHOWN_LINES = 60
# Inventory group of the hosts with a role.
_GROUP = 'bed_{}'
_COPIED = 'bed_packages'


def play(folder: pathlib.Path, declared: declaration.Bed,
         options: Mapping[str, Sequence[str]],
         under_test: packages.Packages | None) -> None:
    """Run the playbooks that install the product.

    :param folder: for files of the playbooks.
    :param options: options of ssh, by host.
    :raises errors.BenchError: a playbook failed; with the end of its output,
        which is in LOG.
    """
    program = _program()
    playbooks = list(_playbooks(folder, declared, under_test))
    file = folder / 'inventory.json'
    file.write_text(json.dumps(inventory(declared, options, under_test),
                               indent=2))
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with open(LOG, 'w') as output:
        try:
            status = subprocess.run(
                [program, '--inventory', file, *playbooks],
                stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, timeout=PLAY_S, check=False,
                cwd=playbooks[-1].parent,
                env=_environment(folder)).returncode
        except subprocess.TimeoutExpired:
            status = f'not done after {PLAY_S} s'
    if status:
        end = LOG.read_text().splitlines()[-_SHOWN_LINES:]
        what = declared.provisioning.playbook
        raise errors.BenchError(
            (f'playbook {what}' if what else 'roles of deploy/ansible')
            + f' failed ({status}); all of it is in {LOG}:\n' + '\n'.join(end))


def inventory(declared: declaration.Bed, options: Mapping[str, Sequence[str]],
              under_test: packages.Packages | None = None) -> dict[str, Any]:
    """Return Ansible's inventory, for JSON."""
    wanted = declared.provisioning
    variables = dict(wanted.variables)
    if under_test is not None:
        variables['octavia_xdp_repository'] = packages.REPOSITORY
        variables['octavia_xdp_version'] = under_test.version
    elif declared.software.version is not None:
        variables['octavia_xdp_version'] = declared.software.version
    groups: dict[str, Sequence[str]] = dict(wanted.groups)
    for role in wanted.roles:
        groups[_GROUP.format(role)] = [
            host.name for host in declared.hosts.values() if host.role == role]
    if under_test is not None:
        groups[_COPIED] = list(dict.fromkeys(
            name for names in groups.values() for name in names))
    return {
        'all': {'vars': variables, 'hosts': {
            name: {**_connection(host.access, options[name]),
                   **{key: value for key, value
                      in (_known(declared, host) if wanted.roles
                          else {}).items() if key not in variables},
                   **host.access.variables}
            for name, host in declared.hosts.items()}},
        **{group: {'hosts': {name: {} for name in names}}
           for group, names in groups.items()},
    }


def _known(declared, host) -> dict[str, Any]:
    """Return variables of operators' inventories that follow from the bed."""
    variables: dict[str, Any] = {'octavia_xdp_host': host.name}
    if host.role not in (interface.LOAD_BALANCER, interface.MEMBER,
                         interface.SINK):
        return variables
    peer_roles = (interface.LOAD_BALANCER, interface.ROUTER) if (
        host.role != interface.LOAD_BALANCER) else (
        interface.MEMBER, interface.SINK, interface.ROUTER)
    ends = [(end, {declared.hosts[other.host].role for other in link.ends
                   if other is not end})
            for link, end in declared.ends(host.name).values()]
    near = [end for end, roles in ends if roles & set(peer_roles)]
    names = [host.access.interfaces[end.interface] for end in near]
    addresses = [str(address.ip) for end in near
                 for address in map(ipaddress.ip_interface, end.addresses)
                 if address.version == 4]
    if names and host.role == interface.LOAD_BALANCER:
        variables['octavia_xdp_uplinks'] = names
    elif names:
        variables['octavia_xdp_interface'] = names[0]
    if addresses:
        variables['octavia_xdp_address'] = addresses[0]
    return variables


def _playbooks(folder, declared, under_test) -> Iterator[pathlib.Path]:
    if under_test is not None:
        index = folder / packages.INDEX
        index.write_text(packages.index(under_test))
        yield _written(folder, 'packages.yaml', [
            _copies(under_test.folder, index)])
    if declared.provisioning.playbook is not None:
        yield declared.provisioning.playbook
    else:
        yield _written(folder, 'roles.yaml', [
            {'name': f'Set up each {role}', 'hosts': _GROUP.format(role),
             'roles': [name]}
            for role, name in declared.provisioning.roles.items()])


def _copies(folder, index):
    """Return the play that copies a folder to machines as a repository."""
    def copy(source, target):
        return {'ansible.builtin.copy': {
            'src': str(source), 'dest': str(target), 'mode': '0644'}}
    return {
        'name': 'Copy the packages under test', 'hosts': _COPIED,
        'gather_facts': False, 'tasks': [
            {'name': 'Make their folder', 'ansible.builtin.file': {
                'path': str(packages.FOLDER), 'state': 'directory',
                'mode': '0755'}},
            *({'name': f'Copy {path.name}',
               **copy(path, packages.FOLDER / path.name)}
              for path in sorted(folder.glob('*.deb'))),
            {'name': 'Copy the index',
             **copy(index, packages.FOLDER / packages.INDEX)}]}


def _written(folder, name, plays):
    path = folder / name
    path.write_text(json.dumps(plays, indent=2))
    return path


def _connection(access, options):
    return {
        'ansible_host': access.address,
        'ansible_port': access.port,
        'ansible_user': access.user,
        'ansible_become': access.user != 'root',
        'ansible_python_interpreter': '/usr/bin/python3',
        # Use the bed's own connection, which checks the host key.
        'ansible_ssh_common_args': shlex.join(options),
    }


def _program():
    own = ENVIRONMENT / 'bin/ansible-playbook'
    program = own if own.exists() else shutil.which('ansible-playbook')
    if program is None:
        raise errors.BenchError(
            'no ansible-playbook: "tools/uv venv build/ansible" and '
            '"tools/uv pip install --python build/ansible/bin/python '
            '--requirement deploy/ansible/requirements.txt" install it')
    return program


def _environment(folder):
    return {
        **os.environ,
        'PATH': f'{ENVIRONMENT}/bin:{os.environ["PATH"]}',
        'ANSIBLE_HOME': str(folder / 'ansible'),
        'ANSIBLE_NOCOLOR': '1',
        'ANSIBLE_HOST_KEY_CHECKING': 'True',
        'ANSIBLE_SSH_ARGS': '-o ControlMaster=no',
        'ANSIBLE_PIPELINING': 'True',
        'ANSIBLE_ROLES_PATH': str(real_machines.ROLES),
        'ANSIBLE_TIMEOUT': '120',
    }
