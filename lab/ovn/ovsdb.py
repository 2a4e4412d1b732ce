# SPDX-License-Identifier: Apache-2.0
"""Database servers of Open vSwitch and OVN, and daemons beside them.

They run in the foreground and log to standard error, as all processes of a
lab do.
"""

from lab import processes
from lab.ovn import packages

LOGGING = ('-vconsole:info', '-vsyslog:off', '-vfile:off')
# Milliseconds without a word after which a peer is asked whether it lives.
# The default, 5 s, ends connections on a machine with much to do.
PROBE_MS = 60000


class Host:
    """Where programs of Open vSwitch and OVN run, and with which files."""

    def __init__(self, lab, name):
        self.lab = lab
        self.name = name
        self.directory = lab.host_directory(name) / 'ovs'
        self.run_directory = lab.run_directory / name / 'ovs'

    def make_directories(self):
        """Make the directories, which a program does not."""
        self.directory.mkdir(exist_ok=True)
        self.run_directory.mkdir(parents=True, exist_ok=True)

    def socket(self, database):
        """Where a database server listens for programs of the same host."""
        return self.run_directory / f'{database}.sock'

    @property
    def environment(self):
        return packages.environment(self.directory, self.run_directory)

    def run(self, program, *arguments, **options):
        """Run a program to its end; what it printed."""
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
        """Start a database server; it is empty at its first start.

        :param remotes: where it listens beside its socket.
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
        """The socket by which ovs-appctl talks to a process."""
        return self.run_directory / f'{process}.ctl'
