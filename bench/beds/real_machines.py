# SPDX-License-Identifier: Apache-2.0
"""Reads the parts of a declaration about real machines, for reading.py: how
they are reached and provisioned."""

from collections.abc import Mapping
import pathlib

from bench import errors
from bench.beds import declaration
from bench.compare import checkouts
from bench.declarations import document

# Keys of "software" that select what is installed.
INSTALLED = ('version', 'packages', 'revision')
# The roles of operators.
ROLES = pathlib.Path(__file__).parents[2] / 'deploy/ansible/roles'


def access(parsed: document.Document, group: str,
           ) -> declaration.Access | None:
    """Return how the host with a declared name is reached."""
    declared = parsed.data['hosts'][group].get('ssh')
    if declared is None:
        return None
    if 'count' in parsed.data['hosts'][group]:
        raise parsed.error(
            f'"{group}" stands for several hosts, and "ssh" is how one of '
            'them is reached: declare each', 'hosts', group, 'ssh')
    ours = parsed.data.get('ssh', {})
    key = declared.get('key', ours.get('key'))
    return declaration.Access(
        declared['address'], declared['interfaces'],
        declared.get('port', 22), declared.get('user', ours.get('user',
                                                                'root')),
        path(parsed, key, 'file', 'private key', *(
            ('hosts', group, 'ssh', 'key') if 'key' in declared
            else ('ssh', 'key'))),
        declared.get('host_key'), declared.get('variables', {}))


def provisioning(parsed: document.Document,
                 groups: Mapping[str, tuple[str, ...]],
                 ) -> declaration.Provisioning:
    """:param groups: groups of a playbook's inventory."""
    declared = parsed.data.get('ssh', {})
    return declaration.Provisioning(
        path(parsed, declared.get('known_hosts'), 'file', 'known hosts', 'ssh',
             'known_hosts'),
        declared.get('roles', {}),
        path(parsed, declared.get('playbook'), 'file', 'playbook', 'ssh',
             'playbook'),
        groups, declared.get('variables', {}))


def path(parsed: document.Document, name: str | None, kind: str, what: str,
         *keys: str) -> pathlib.Path | None:
    """Resolve a path relative to the folder of the declaration.

    :param kind: 'file' or 'folder'.
    :raises errors.DeclarationError: it does not exist.
    """
    if name is None:
        return None
    target = parsed.path.parent / pathlib.Path(name).expanduser()
    if not (target.is_file() if kind == 'file' else target.is_dir()):
        raise parsed.error(f'there is no {kind} {target} ({what})', *keys)
    return target.resolve()


def check(parsed: document.Document, bed: declaration.Bed) -> None:
    """:raises errors.DeclarationError: a key is missing or has no effect."""
    _check_access(parsed, bed)
    _check_software(parsed, bed)
    _check_provisioning(parsed, bed)
    _check_roles(parsed, bed)


def _check_access(parsed, bed):
    machines: dict[tuple[str, int], str] = {}
    for name, host in bed.hosts.items():
        if host.access is None:
            raise parsed.error(f'provider ssh needs "ssh" of host "{name}": '
                               'how it is reached', 'hosts', host.group)
        keys = ('hosts', host.group, 'ssh', 'interfaces')
        ends = bed.ends(name)
        for missing in ends.keys() - host.access.interfaces.keys():
            raise parsed.error(f'host "{name}" has an end "{missing}", and no '
                               'interface is named for it', *keys)
        for unknown in host.access.interfaces.keys() - ends.keys():
            raise parsed.error(
                f'host "{name}" has no end "{unknown}"; its ends are: '
                f'{", ".join(ends)}', *keys, unknown)
        for key, interface in host.access.interfaces.items():
            if list(host.access.interfaces.values()).count(interface) > 1:
                raise parsed.error(f'host "{name}" has interface {interface} '
                                   'at two links', *keys, key)
        machine = host.access.address, host.access.port
        other = machines.setdefault(machine, name)
        if other != name:
            raise parsed.error(
                f'host "{name}" is the machine of "{other}" as well: what one '
                'does would count as the other\'s', 'hosts', host.group,
                'ssh', 'address')
        if host.access.host_key is None and (
                bed.provisioning.known_hosts is None):
            raise parsed.error(
                f'neither "host_key" of host "{name}" nor "known_hosts" of '
                '"ssh": nobody knows whether it is that machine',
                'hosts', host.group, 'ssh')


def _check_software(parsed, bed):
    software = parsed.data.get('software', {})
    ours = parsed.data.get('ssh', {})
    declared = [key for key in INSTALLED if key in software]
    if len(declared) > 1:
        raise parsed.error(
            f'{declared[0]} and {declared[1]} both say what is installed: '
            'declare either', 'software', declared[1])
    if bed.software.revision is not None:
        try:
            checkouts.commit(bed.software.revision)
        except errors.BenchError as error:
            raise parsed.error(str(error), 'software', 'revision') from None
    for key in INSTALLED:
        if key in software and not bed.provisioning.installs():
            raise parsed.error(
                f'"{key}" is not installed by anything: "ssh" names neither '
                '"roles" nor a "playbook"', 'software', key)
        if key in software and 'octavia_xdp_version' in ours.get(
                'variables', {}):
            raise parsed.error(
                f'octavia_xdp_version follows from "{key}" of "software"',
                'ssh', 'variables', 'octavia_xdp_version')


def _check_provisioning(parsed, bed):
    ours, hosts = parsed.data.get('ssh', {}), parsed.data['hosts']
    if 'roles' in ours and 'playbook' in ours:
        raise parsed.error('"roles" and "playbook" are two ways to the same: '
                           'declare either', 'ssh', 'playbook')
    if 'groups' in ours and 'playbook' not in ours:
        raise parsed.error('"groups" are of a "playbook", and there is none',
                           'ssh', 'groups')
    if bed.provisioning.installs():
        return
    for where, declared in ((('ssh',), ours), *(
            (('hosts', group, 'ssh'), hosts[group]['ssh'])
            for group in hosts)):
        if 'variables' in declared:
            raise parsed.error('"variables" are of "roles" or a "playbook", '
                               'and there are none', *where, 'variables')


def _check_roles(parsed, bed):
    known = sorted(path.parents[1].name
                   for path in ROLES.glob('*/tasks/main.yaml'))
    for role, name in bed.provisioning.roles.items():
        if name not in known:
            raise parsed.error(f'deploy/ansible has no role "{name}"; it has: '
                               f'{", ".join(known)}', 'ssh', 'roles', role)
        if role not in {host.role for host in bed.hosts.values()}:
            raise parsed.error(f'no host has the role {role}', 'ssh', 'roles',
                               role)
