# SPDX-License-Identifier: Apache-2.0
"""A DevStack host in a trial, which runs phases of the plugin one by one."""

import contextlib
import os
import shlex
import signal

from lab import cloud
from lab import deployment
from lab import paths
from lab import processes
from lab.control import keystone
from lab.control import mariadb
from lab.control import octavia
from lab.control import rabbitmq

PLUGIN = paths.CHECKOUT / 'devstack'
SCRIPT = ('set -o errexit -o pipefail\n'
          'source {functions}\n'
          'harness_phase {plugin} {words}\n')


class Host:
    """One host.

    :param name: its namespace in the lab of the servers.
    :param own: the name of the lab that the plugin creates there.
    :param variables: those of its local.conf.
    """

    def __init__(self, lab, name, own, variables):
        self.lab = lab
        self.name = name
        self.own = paths.Lab(own)
        self.variables = variables

    @property
    def directory(self):
        """The harness's directory for this host."""
        return self.lab.directory / f'devstack-{self.name}'

    @property
    def units(self):
        return self.directory / 'units'

    @property
    def record(self):
        """The file with a line for each call of DevStack's functions."""
        return self.directory / 'record'

    def prepare(self):
        """Create the directories of a new host."""
        self.units.mkdir(parents=True)
        (self.directory / 'tempest.conf').touch()

    def phase(self, *words):
        """Run a phase, and return the step's line of detail.

        :raises LabError: it failed; has the end of its output.
        """
        before = self.calls()
        processes.run(
            self.lab, self.name,
            ['/bin/bash', '-c', SCRIPT.format(
                functions=PLUGIN / 'tests' / 'functions.sh', plugin=PLUGIN,
                words=shlex.join(words))],
            env=self.environment(), timeout=600)
        new = self.calls()[len(before):]
        return f'{len(new)} calls of DevStack\'s functions'

    def calls(self):
        """Return the recorded calls."""
        if not self.record.exists():
            return []
        return self.record.read_text().splitlines()

    def environment(self):
        """Return variables of local.conf, DevStack and the harness."""
        lab, control = self.lab, paths.CONTROL_ADDRESS
        release = (paths.CHECKOUT / 'hc-agent' / 'target' / 'release'
                   / 'octavia-xdp-hc')
        first = self.name == paths.CONTROL
        return {
            # Rust may be installed for one user only.
            'PATH': os.environ['PATH'],
            **cloud.environment(lab, cloud.ADMIN),
            'HARNESS_RECORD': str(self.record),
            'HARNESS_UNITS': str(self.units),
            'HARNESS_BIN_DIR': str(paths.VENV / 'bin'),
            'HARNESS_TRANSPORT_URL':
                f'rabbit://stackrabbit:no@{control}:{rabbitmq.PORT}/',
            'HARNESS_DATABASE_URL': mariadb.url(lab, 'DATABASE'),
            'DEST': '/nonexistent',
            'ENABLED_SERVICES': 'rabbit,tempest' if first else '',
            'HOST_IP': paths.management_address(self.name),
            'SERVICE_HOST': control,
            'STACK_USER': 'root',
            'SERVICE_PASSWORD': 'a password',
            'KEYSTONE_SERVICE_URI': keystone.URL,
            'REGION_NAME': keystone.REGION,
            'TEMPEST_CONFIG': str(self.directory / 'tempest.conf'),
            'OCTAVIA_CONF': str(octavia.configuration(lab)),
            'OCTAVIA_XDP_CONF': str(self.configuration),
            'OCTAVIA_XDP_LAB': self.own.name,
            'OCTAVIA_XDP_RABBITMQCTL': rabbitmq.control_command(lab),
            'OCTAVIA_XDP_BUILD_HC': str(release.exists()),
            'OCTAVIA_XDP_HC': str(release if release.exists()
                                  else paths.HEALTH_CHECKER),
            **({} if first else {'OCTAVIA_XDP_MANAGEMENT_PREFIX':
                                 '198.18.41'}),
            **self.variables,
        }

    @property
    def configuration(self):
        return self.directory / 'etc' / 'octavia-xdp.conf'

    def running(self):
        """Return the running services."""
        return sorted(path.name.removeprefix('devstack@').removesuffix(
            '.service.pid') for path in self.units.glob('*.pid')
            if processes.start_time(int(path.read_text())))

    def end(self):
        """Kill services and stop the lab, in any state."""
        for path in self.units.glob('*.pid'):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGKILL)
        deployment.down(self.own)

    def remaining_files(self):
        """Return existing files of the plugin's lab."""
        return [path for path in (self.own.directory, self.own.run_directory,
                                  self.configuration)
                if path.exists()]
