# SPDX-License-Identifier: Apache-2.0
"""Machines that are reached by ssh, each with a Debian of its own in which
systemd runs: what the roles of operators are for."""

import shutil

from lab import namespaces
from lab import processes
from lab.packages import root
from octavia_xdp_provider.tests.functional.bench import ssh_machines
from octavia_xdp_provider.tests.support import waiting

# Debian packages that a bed and Ansible need.
NEEDED = {'libbpf1', 'nginx-light', 'openssh-server', 'python3-apt', 'wrk'}


class DebianMachines(ssh_machines.Machines):
    """:param packages: that are there, beside those of a minimal Debian.

    :ivar systemd: of each machine, lab.packages.root.Systemd.
    """

    def __init__(self, lab, addresses, links, packages):
        super().__init__(lab, addresses, links)
        self._packages = packages
        self.systemd = {}

    def make(self):
        self.roots = self.lab.directory / 'roots'
        self.lab.make_directories()
        self.roots.mkdir()
        root.make(self._packages | NEEDED,
                  *(self.roots / name for name in self.addresses))
        for name in self.addresses:
            self._without_repositories(self.roots / name)
        self.connect()

    @staticmethod
    def _without_repositories(folder):
        """Nothing but what the bed brings along can be installed."""
        sources = folder / 'etc/apt'
        (sources / 'sources.list').unlink(missing_ok=True)
        for path in (sources / 'sources.list.d').iterdir():
            path.unlink()

    def start_sshd(self, name):
        folder = self.roots / name
        own = folder / 'etc/ssh/bench'
        shutil.copy(self.lab.directory / name, own)
        keys = folder / 'root/.ssh/authorized_keys'
        keys.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self.lab.directory / f'{ssh_machines.OPERATOR}.pub', keys)
        made = self.systemd[name] = root.Systemd(
            folder, '', namespaces.NETNS / self.lab.namespace(name))
        made.start()
        made.add_devices()
        made.run('mkdir', '-p', '/run/sshd')
        made.run('/usr/sbin/sshd', '-o', 'UsePAM=no', '-o',
                 'HostKey=/etc/ssh/bench')
        processes.wait_for(f'sshd of {name}', lambda: self.answers(name),
                           waiting.Waiting.SOON, 0.2)

    def remove(self):
        for made in self.systemd.values():
            made.end()
        super().remove()
