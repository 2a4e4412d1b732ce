# SPDX-License-Identifier: Apache-2.0
"""Beds of real machines, reached by OpenSSH.

An agent on each machine runs commands, and reverts all changes when the
connection ends for whatever reason.
"""

from collections.abc import Iterator
import contextlib
import shlex
import subprocess

from bench import errors
from bench.beds import agent
from bench.beds import channel
from bench.beds import declaration
from bench.beds import interface
from bench.beds import packages
from bench.beds import provisioning
from bench.beds import real_links
from bench.beds import revisions
from bench.beds import runs
from bench.beds import units
from lab import parallel
from lab import paths

CONNECT_S = 60
# Seconds between keepalives, and how many may be missed.
ALIVE_S, ALIVE_COUNT = 5, 3
# Seconds for the agent to revert its changes.
END_S = 60


class Provider:
    """Builds beds of real machines; see interface.Provider."""

    name = declaration.SSH

    @contextlib.contextmanager
    def build(self, declared: declaration.Bed, run: str,
              ) -> Iterator[interface.Bed]:
        with contextlib.ExitStack() as stack:
            under_test = _packages(declared.software)
            held = stack.enter_context(runs.hold(run))
            connections = {
                name: Connection(held, declared, host)
                for name, host in declared.hosts.items()}
            stack.callback(_close, connections.values())
            _together(connection.open for connection in connections.values())
            hosts = {name: connection.host()
                     for name, connection in connections.items()}
            installed = None
            if declared.provisioning.installs():
                installed = _provision(held, declared, hosts, {
                    name: connection.options
                    for name, connection in connections.items()}, under_test)
            _together(lambda host=host: real_links.prepare(
                declared, host) for host in hosts.values())
            macs = {name: interface.macs(host) for name, host in hosts.items()}
            for name, host in hosts.items():
                host.interfaces = interface.interfaces(declared, name, macs)
            _together(lambda host=host: real_links.join(
                declared, host, macs) for host in hosts.values())
            yield interface.Bed(declared, hosts, hosts, installed=installed)


class Connection:
    """A connection to a machine: OpenSSH's master with the agent as session.

    Ansible's connections share it.
    """

    def __init__(self, held: runs.Run, declared: declaration.Bed,
                 host: declaration.Host):
        self._name = f'{held.id}.{host.name}'
        self._host = host
        self._access = host.access
        known = held.directory / 'known_hosts'
        if not known.exists():
            known.write_text(_known_hosts(declared))
        socket = held.machine.folder / f'{host.name}.ssh'
        # Independent of configuration files of the user and machine.
        self.options = [
            '-F', 'none', '-o', 'BatchMode=yes',
            '-o', 'StrictHostKeyChecking=yes',
            '-o', f'UserKnownHostsFile={known}',
            '-o', 'GlobalKnownHostsFile=/dev/null',
            '-o', 'ControlPersist=no', '-o', f'ControlPath={socket}',
            '-o', f'ConnectTimeout={CONNECT_S}',
            '-o', f'ServerAliveInterval={ALIVE_S}',
            '-o', f'ServerAliveCountMax={ALIVE_COUNT}',
            '-p', str(self._access.port)]
        if self._access.key is not None:
            self.options += ['-i', str(self._access.key),
                             '-o', 'IdentitiesOnly=yes']
        self._log = held.directory / f'{host.name}.ssh.log'
        self._child: subprocess.Popen | None = None
        self._channel: channel.Channel | None = None

    def open(self) -> None:
        """Connect and start the agent.

        :raises errors.BenchError: it failed; with the output of ssh.
        """
        words = ['python3', '-u', '-c', channel.BOOT, self._name,
                 str(len(channel.SOURCE))]
        if self._access.user != 'root':
            words = ['sudo', '-n', *words]
        with open(self._log, 'ab') as log:
            self._child = subprocess.Popen(
                ['ssh', *self.options, '-o', 'ControlMaster=yes', '-T',
                 '-l', self._access.user, self._access.address, '--',
                 shlex.join(words)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True)
        self._channel = channel.Channel(
            f'host {self._host.name} ({self._access.address})',
            self._child.stdin, self._child.stdout, self._why)
        with contextlib.suppress(OSError):  # Then answers end too.
            self._child.stdin.write(channel.SOURCE)
            self._child.stdin.flush()
        self._folder = self._channel.ready(CONNECT_S * 2)

    def host(self) -> channel.Host:
        """Return the host, still without its interfaces."""
        return channel.Host(self._channel, self._host.name, self._host.role,
                            self._folder, {})

    def close(self) -> None:
        """End the agent and everything that it has started."""
        if self._channel is not None:
            self._channel.close()

    def wait(self) -> None:
        """Wait for the end after close()."""
        if self._child is None:
            return
        try:
            self._child.wait(END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            raise errors.BenchError(
                f'host {self._host.name} ({self._access.address}) has not '
                f'ended what the bed started there within {END_S} s; it does '
                f'as soon as it notices that the connection is gone; look at '
                f'{agent.FOLDERS} there') from None

    def _why(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(ALIVE_S)
        return (runs.text_of(self._log)
                or f'ssh ended with {self._child.poll()}')


def _packages(software):
    """Return packages to install; None: those of the machines' repository."""
    folder = software.packages
    if software.revision is not None:
        folder = revisions.packages_of(software.revision)
    return None if folder is None else packages.in_folder(folder)


def _provision(held, declared, hosts, options, under_test):
    """Install the product and stop its units; return packages by host."""
    version = under_test.version if under_test else declared.software.version
    provisioning.play(held.directory, declared, options, under_test)
    installed = {name: packages.installed(host)
                 for name, host in hosts.items()}
    if declared.provisioning.roles:
        for name, host in hosts.items():
            if host.role == interface.LOAD_BALANCER:
                packages.check(host, installed[name], version, under_test)
    _together(lambda host=host: units.stop(host) for host in hosts.values())
    return installed


def _known_hosts(declared):
    """Return known_hosts with keys of the declaration and of its file."""
    lines = []
    for host in declared.hosts.values():
        access = host.access
        if access.host_key is not None:
            name = access.address if access.port == 22 else (
                f'[{access.address}]:{access.port}')
            lines.append(f'{name} {access.host_key}\n')
    if declared.provisioning.known_hosts is not None:
        lines.append(declared.provisioning.known_hosts.read_text())
    return ''.join(lines)


def _close(connections):
    """Close all connections, even if some fail; raise their errors."""
    connections = list(connections)
    for connection in connections:
        connection.close()
    failed = []
    for connection in connections:
        try:
            connection.wait()
        except errors.BenchError as error:
            failed.append(str(error))
    if failed:
        raise errors.BenchError('\n'.join(failed))


def _together(functions):
    try:
        parallel.together(*functions)
    except paths.LabError as error:
        raise errors.BenchError(str(error)) from None
