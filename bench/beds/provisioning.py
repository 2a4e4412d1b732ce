# SPDX-License-Identifier: Apache-2.0
"""Real machines are provisioned by Ansible, with the roles of operators.

A declaration names for each role that hosts have in the bed one of
deploy/ansible; or a playbook, with the groups of its inventory. Packages under
test are copied to the machines first, as a repository.
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
from bench.beds import runs
from lab import paths

# That of lab/roles, where deploy/ansible/requirements.txt is installed.
ENVIRONMENT = paths.BUILD / 'ansible'
LOG = paths.BUILD / 'bench/ansible.log'
PLAY_S = 3600
_SHOWN_LINES = 60
# Of hosts that have the role, in the inventory that is made of roles.
_GROUP = 'bed_{}'
_COPIED = 'bed_packages'


def play(lab: runs.RunLab, declared: declaration.Bed,
         options: Mapping[str, Sequence[str]],
         under_test: packages.Packages | None) -> None:
    """Run what installs the product.

    :param options: of ssh, by host.
    :raises errors.BenchError: it failed on a host; with what it says. All of
        it is in LOG.
    """
    program = _program()
    playbooks = list(_playbooks(lab, declared, under_test))
    file = lab.directory / 'inventory.json'
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
                env=_environment(lab)).returncode
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
    """JSON, which is YAML as well."""
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
    """Variables of operators' inventories that follow from the bed."""
    found: dict[str, Any] = {'octavia_xdp_host': host.name}
    if host.role not in (interface.LOAD_BALANCER, interface.MEMBER,
                         interface.SINK):
        return found
    other = (interface.LOAD_BALANCER, interface.ROUTER) if (
        host.role != interface.LOAD_BALANCER) else (
        interface.MEMBER, interface.SINK, interface.ROUTER)
    ends = [(end, {declared.hosts[one.host].role for one in link.ends
                   if one is not end})
            for link, end in declared.ends(host.name).values()]
    near = [end for end, roles in ends if roles & set(other)]
    names = [host.access.interfaces[end.interface] for end in near]
    addresses = [str(address.ip) for end in near
                 for address in map(ipaddress.ip_interface, end.addresses)
                 if address.version == 4]
    if names and host.role == interface.LOAD_BALANCER:
        found['octavia_xdp_uplinks'] = names
    elif names:
        found['octavia_xdp_interface'] = names[0]
    if addresses:
        found['octavia_xdp_address'] = addresses[0]
    return found


def _playbooks(lab, declared, under_test) -> Iterator[pathlib.Path]:
    if under_test is not None:
        index = lab.directory / packages.INDEX
        index.write_text(packages.index(under_test))
        yield _written(lab, 'packages.yaml', [
            _copies(under_test.folder, index)])
    if declared.provisioning.playbook is not None:
        yield declared.provisioning.playbook
    else:
        yield _written(lab, 'roles.yaml', [
            {'name': f'Set up each {role}', 'hosts': _GROUP.format(role),
             'roles': [name]}
            for role, name in declared.provisioning.roles.items()])


def _copies(folder, index):
    """The play that makes a repository of a folder on each machine."""
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


def _written(lab, name, plays):
    path = lab.directory / name
    path.write_text(json.dumps(plays, indent=2))
    return path


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
        'ANSIBLE_ROLES_PATH': str(real_machines.ROLES),
        'ANSIBLE_TIMEOUT': '120',
    }
