# SPDX-License-Identifier: Apache-2.0
"""Hosts for playbooks: the namespaces of a lab, each with a Debian of its own.

In each a systemd runs, and sshd. Of the lab's own processes there are those
of the control host, where Octavia is, without any controller; the member's
web server; and nothing else.
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
# Host → address by which Ansible reaches it.
HOSTS = {
    paths.CONTROL: paths.CONTROL_ADDRESS,
    **{host: paths.management_address(host) for host in (*NODES, HYPERVISOR)},
    links.ROUTER: str(paths.MANAGEMENT_NETWORK[2]),
    MEMBER: str(paths.MANAGEMENT_NETWORK[3]),
}
# Beside what the packages need: for Ansible, and the router's.
NEEDED = {'bird2', 'openssh-server', 'python3-apt'}
# Nothing of a machine that boots.
_DROP_IN = '[Unit]\nDefaultDependencies=no\n'


class Hosts:
    """From ``start`` until ``end``."""

    def __init__(self, lab):
        self.lab = lab
        self.systemd = {}

    def make_roots(self):
        """A Debian for each host, and a repository of our packages."""
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
        """The lab's network, Octavia, and all hosts."""
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
        # Octavia with the provider, but no controller of the lab's.
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
        # The user of the controller is another one than Octavia's here.
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
            # Octavia's own packages make it.
            host.run('useradd', '--system', 'octavia')
        host.add_devices()
        host.run('mkdir', '-p', '/run/sshd',
                 '/run/systemd/system/bird.service.d')
        host.run('sh', '-c', f'printf "{_DROP_IN}" '
                 '> /run/systemd/system/bird.service.d/test.conf')
        host.run('systemctl', 'daemon-reload')
        host.run('/usr/sbin/sshd', '-o', 'UsePAM=no')

    def end(self):
        """End all processes and remove what was made, but for logs."""
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
        """The version of a package that a host has."""
        return self.systemd[host].run(
            'dpkg-query', '--show', '--showformat', '${Version}', package)

    def expect_active(self, host, unit):
        """:raises demo_steps.StepFailed: the unit does not run."""
        systemd = self.systemd[host]
        seen = systemd.shown(unit, 'ActiveState')
        demo_steps.expect(seen == 'active', f'{unit} of {host}: {seen}\n'
                          f'{systemd.log(unit)}')


def _prepare(folder):
    """The operator's key; no repository but that of the roles."""
    keys = folder / 'root/.ssh/authorized_keys'
    keys.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(KEY.with_suffix('.pub'), keys)
    sources = folder / 'etc/apt'
    (sources / 'sources.list').unlink(missing_ok=True)
    for path in (sources / 'sources.list.d').iterdir():
        path.unlink()


def _make_repository():
    """Packages of this tree, and older ones of them."""
    REPOSITORY.mkdir()
    for path in (*build.built(), *build.OLD.glob('*.deb')):
        os.link(path, REPOSITORY / path.name)
    index = commands.run('sh', '-c', 'dpkg-scanpackages --multiversion . '
                         '2> /dev/null', cwd=REPOSITORY)
    (REPOSITORY / 'Packages').write_text(index)
