# SPDX-License-Identifier: Apache-2.0
"""Hosts for playbooks: the namespaces of a lab, each with its own Debian.

Each runs systemd and sshd. Of the lab's own processes only those of the
control host, with Octavia but without controllers, and the member's web server
run.
"""

import os
import shutil
import subprocess

from lab import demo_steps
from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab.control import host as control
from lab.control import octavia
from lab.fabric import client
from lab.fabric import links
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.packages import build
from lab.packages import commands
from lab.packages import root

FOLDER = paths.BUILD / 'roles'
KEY = FOLDER / 'key'
INVENTORY = FOLDER / 'inventory.yaml'
REPOSITORY = FOLDER / 'repository'
REPOSITORY_PORT = 8090
REPOSITORY_URL = f'http://{paths.CONTROL_ADDRESS}:{REPOSITORY_PORT}'
NODES = ('lb1', 'lb2')
MEMBER = 'member1'
HYPERVISOR = 'hv1'
# {host: address for Ansible}
HOSTS = {
    paths.CONTROL: paths.CONTROL_ADDRESS,
    **{host: paths.management_address(host) for host in (*NODES, HYPERVISOR)},
    links.ROUTER: str(paths.MANAGEMENT_NETWORK[2]),
    MEMBER: str(paths.MANAGEMENT_NETWORK[3]),
}
# In addition to the packages' dependencies: for Ansible, and for the router.
NEEDED = {'bird2', 'openssh-server', 'python3-apt'}
# The namespaces do not boot, so bird must not wait for units of a boot.
_DROP_IN = '[Unit]\nDefaultDependencies=no\n'


class Hosts:
    """All hosts, from ``start`` until ``end``."""

    def __init__(self, lab):
        self.lab = lab
        self.systemd = {}

    def make_roots(self):
        """Create a Debian for each host, and a repository of the packages."""
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        commands.run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', KEY)
        how = root.make(build.dependencies() | NEEDED,
                        *(FOLDER / host for host in HOSTS))
        for host in HOSTS:
            _prepare(FOLDER / host)
        _make_repository()
        return how

    def start(self):
        """Start the lab's network, Octavia, and all hosts."""
        deployment.up_fabric(self.lab, self._make)
        for host in HOSTS:
            self._start(host)
        with namespaces.inside(self.lab, paths.CONTROL):
            self.repository = subprocess.Popen(
                [paths.VENV / 'bin/python', '-m', 'http.server', '--bind',
                 paths.CONTROL_ADDRESS, str(REPOSITORY_PORT)],
                cwd=REPOSITORY, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return ', '.join(f'{name} {address}'
                         for name, address in HOSTS.items())

    def _make(self):
        # Octavia has the provider, but the lab starts no controller.
        control.up(self.lab, octavia.NOOP, others=(octavia.XDP,))
        router.create(self.lab)
        client.create(self.lab)
        for node in NODES:
            nodes.create(self.lab, node)
            nodes.register(self.lab, node)
        members.create(self.lab, MEMBER)
        processes.run(self.lab, MEMBER, [links.DECAPSULATE, 'remove',
                                         links.UPLINK])
        namespaces.create(self.lab, HYPERVISOR)
        links.connect(self.lab, HYPERVISOR, links.FABRIC_MTU)
        namespaces.address(self.lab, HYPERVISOR, links.UPLINK,
                           f'{paths.hypervisor_address(1)}/24')
        namespaces.join_management(self.lab, HYPERVISOR)
        octavia.register_hypervisor(self.lab, HYPERVISOR)
        for host in (links.ROUTER, MEMBER):
            self._join_management(host)
        # The controller runs as another user than Octavia here.
        for path in self.lab.run_directory.glob('*.sock'):
            path.chmod(0o666)

    def _join_management(self, host):
        port = f'to-{host}'
        namespaces.veth(self.lab, (host, namespaces.MANAGEMENT_INTERFACE),
                        (paths.CONTROL, port))
        namespaces.join_bridge(self.lab, paths.CONTROL,
                               namespaces.MANAGEMENT_BRIDGE, port)
        namespaces.address(self.lab, host, namespaces.MANAGEMENT_INTERFACE,
                           f'{HOSTS[host]}/24')

    def _start(self, name):
        shared = self.lab.run_directory
        before = f'mkdir {str(shared)[1:]}; mount --bind {shared} ' \
                 f'{str(shared)[1:]}' if name == paths.CONTROL else ''
        host = self.systemd[name] = root.Systemd(
            FOLDER / name, before,
            namespaces.NETNS / self.lab.namespace(name))
        host.start()
        if name == paths.CONTROL:
            # Octavia's packages would create this user.
            host.run('useradd', '--system', 'octavia')
        host.add_devices()
        host.run('mkdir', '-p', '/run/sshd',
                 '/run/systemd/system/bird.service.d')
        host.run('sh', '-c', f'printf "{_DROP_IN}" '
                 '> /run/systemd/system/bird.service.d/test.conf')
        host.run('systemctl', 'daemon-reload')
        host.run('/usr/sbin/sshd', '-o', 'UsePAM=no')

    def end(self):
        """Stop all processes and remove everything but logs."""
        for host in self.systemd.values():
            host.end()
        if self.repository is not None:
            self.repository.kill()
            self.repository.wait()
        deployment.down(self.lab)
        for host in HOSTS:
            shutil.rmtree(FOLDER / host, ignore_errors=True)
        shutil.rmtree(REPOSITORY, ignore_errors=True)

    repository = None

    def version(self, host, package):
        """Return the version of a package on a host."""
        return self.systemd[host].run(
            'dpkg-query', '--show', '--showformat', '${Version}', package)

    def expect_active(self, host, unit):
        """:raises demo_steps.StepFailed: the unit does not run."""
        systemd = self.systemd[host]
        state = systemd.shown(unit, 'ActiveState')
        demo_steps.expect(state == 'active', f'{unit} of {host}: {state}\n'
                          f'{systemd.log(unit)}')


def _prepare(folder):
    """Add the operator's key, and remove all repositories.

    The roles add their own repository.
    """
    keys = folder / 'root/.ssh/authorized_keys'
    keys.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(KEY.with_suffix('.pub'), keys)
    sources = folder / 'etc/apt'
    (sources / 'sources.list').unlink(missing_ok=True)
    for path in (sources / 'sources.list.d').iterdir():
        path.unlink()


def _make_repository():
    """Create a repository with this tree's packages and older versions."""
    REPOSITORY.mkdir()
    for path in (*build.built(), *build.OLD.glob('*.deb')):
        os.link(path, REPOSITORY / path.name)
    index = commands.run('sh', '-c', 'dpkg-scanpackages --multiversion . '
                         '2> /dev/null', cwd=REPOSITORY)
    (REPOSITORY / 'Packages').write_text(index)
