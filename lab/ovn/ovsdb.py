# SPDX-License-Identifier: Apache-2.0
"""Database servers and daemons of Open vSwitch and OVN.

They run in the foreground and log to standard error, like all processes of a
lab.
"""

from lab import processes
from lab.ovn import packages

LOGGING = ('-vconsole:info', '-vsyslog:off', '-vfile:off')
# Milliseconds of inactivity after which a peer is probed. The default, 5 s,
# closes connections on a machine under load.
PROBE_MS = 60000


class Host:
    """A host on which programs of Open vSwitch and OVN run."""

    def __init__(self, lab, name):
        self.lab = lab
        self.name = name
        self.directory = lab.host_directory(name) / 'ovs'
        self.run_directory = lab.run_directory / name / 'ovs'

    def make_directories(self):
        """Create the directories, which the programs do not."""
        self.directory.mkdir(exist_ok=True)
        self.run_directory.mkdir(parents=True, exist_ok=True)

    def socket(self, database):
        """Return the socket of a database server for the same host."""
        return self.run_directory / f'{database}.sock'

    @property
    def environment(self):
        return packages.environment(self.directory, self.run_directory)

    def run(self, program, *arguments, **options):
        """Run a program to its end, and return its output."""
        return processes.run(
            self.lab, self.name, [packages.program(program), *arguments],
            env={key: str(value) for key, value in self.environment.items()},
            **options).stdout

    def start(self, process, program, *arguments, **options):
        """Start a daemon."""
        return processes.start(
            self.lab, self.name, process,
            [packages.program(program), *arguments, *LOGGING],
            self.environment, **options)

    def start_database(self, process, database, schema, *remotes):
        """Start a database server; create an empty database if missing.

        :param remotes: connection methods in addition to its socket.
        """
        path = self.directory / f'{database}.db'
        if not path.exists():
            self.run('ovsdb-tool', 'create', path, packages.schema(schema))
        socket = self.socket(database)
        self.start(process, 'ovsdb-server', path, f'--remote=punix:{socket}',
                   *(f'--remote={remote}' for remote in remotes),
                   f'--unixctl={self.control(process)}',
                   ready=socket.exists)

    def control(self, process):
        """Return the socket of a process for ovs-appctl."""
        return self.run_directory / f'{process}.ctl'
