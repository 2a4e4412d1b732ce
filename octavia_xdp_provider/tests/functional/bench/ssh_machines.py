# SPDX-License-Identifier: Apache-2.0
"""Machines that are reached by ssh: namespaces, each with an sshd."""

import json
import os
import pathlib
import shutil
import subprocess
import uuid

from oslotest import base

from bench.beds import agent
from bench.beds import runs
from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.tests.support import waiting

OPERATOR = 'operator'


class Machines:
    """Namespaces with sshd, and one from which they are reached.

    :param addresses: of machines, by their names.
    :param links: pairs of ends, each a machine and an interface.
    :ivar keys: public keys of machines and of the operator, by name.
    """

    def __init__(self, lab, addresses, links):
        self.lab = lab
        self.addresses, self.links = addresses, links
        self.keys = {}

    def make(self):
        self.lab.make_directories()
        self.connect()

    def connect(self):
        """Make the namespaces with their links, and start each sshd."""
        pathlib.Path('/run/sshd').mkdir(exist_ok=True)
        self.key(OPERATOR)
        namespaces.create(self.lab, OPERATOR)
        namespaces.bridge(self.lab, OPERATOR, 'mgmt')
        namespaces.address(self.lab, OPERATOR, 'mgmt', '192.0.2.1/24')
        for name, address in self.addresses.items():
            namespaces.create(self.lab, name)
            namespaces.veth(self.lab, (name, 'mgmt'), (OPERATOR, f'to{name}'))
            namespaces.join_bridge(self.lab, OPERATOR, 'mgmt', f'to{name}')
            namespaces.address(self.lab, name, 'mgmt', f'{address}/24')
        for end, other in self.links:
            namespaces.veth(self.lab, end, other)
        for name in self.addresses:
            self.key(name)
            self.start_sshd(name)

    def key(self, name):
        path = self.lab.directory / name
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C',
                        '', '-f', path], check=True)
        public = path.with_suffix('.pub').read_text()
        self.keys[name] = ' '.join(public.split()[:2])

    def start_sshd(self, name):
        configuration = self.lab.directory / f'{name}.sshd'
        configuration.write_text(
            f'HostKey {self.lab.directory / name}\n'
            f'AuthorizedKeysFile {self.lab.directory / "operator.pub"}\n'
            f'PidFile {self.lab.run_directory / name}.pid\n'
            'StrictModes no\nUsePAM no\nPasswordAuthentication no\n'
            'PermitRootLogin prohibit-password\n')
        processes.start(
            self.lab, name, f'sshd-{name}',
            ['/usr/sbin/sshd', '-D', '-e', '-f', configuration],
            ready=lambda: self.answers(name))

    def answers(self, name):
        address = self.addresses[name]
        done = processes.run(self.lab, OPERATOR, [
            'ssh-keyscan', '-T', '2', address], check=False)
        return address in done.stdout

    def remove(self):
        processes.stop_all(self.lab)
        for host in namespaces.hosts(self.lab):
            namespaces.delete(self.lab, host)
        self.lab.remove_directories()
        shutil.rmtree(self.lab.directory, ignore_errors=True)

    def shown(self, name, *words):
        """What "ip -json" prints on a machine."""
        done = processes.run(self.lab, name, ['ip', '-json', *words])
        return json.loads(done.stdout or '[]')

    def settings(self, name):
        """Whatever a bed may change on a machine."""
        links = {link['ifname']: (
            link['mtu'], 'UP' in link['flags'], 'xdp' in link, sorted(
                address['local'] for address in link['addr_info']
                if address['scope'] == 'global'))
            for link in self.shown(name, 'address', 'show')}
        routes = [(route['dst'], route.get('gateway'), route['dev'])
                  for family in ('-4', '-6')
                  for route in self.shown(name, family, 'route', 'show')
                  if route['dst'] not in ('fe80::/64', 'ff00::/8')]
        return (links, routes,
                self.shown(name, 'neighbour', 'show', 'nud', 'permanent'),
                *(processes.run(self.lab, name, [
                    'ethtool', '-k', link]).stdout for link in links),
                processes.run(self.lab, name, [
                    'sysctl', 'net.ipv4.ip_forward',
                    'net.ipv4.conf.all.rp_filter',
                    'net.ipv6.conf.all.forwarding']).stdout)


class SshCase(waiting.Waiting, base.BaseTestCase):
    """The machines are there for all tests of a class.

    :cvar ADDRESSES: see Machines.
    :cvar LINKS: see Machines.
    """

    ADDRESSES: dict[str, str]
    LINKS: list[tuple[tuple[str, str], tuple[str, str]]]
    machines = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if os.geteuid() != 0:
            return
        cls.machines = Machines(
            paths.Lab(f'bench-ssh-{uuid.uuid4().hex[:8]}'), cls.ADDRESSES,
            cls.LINKS)
        cls.addClassCleanup(cls.machines.remove)
        cls.machines.make()

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')

    def inside(self):
        return namespaces.inside(self.machines.lab, OPERATOR)

    def settings(self):
        """Of all machines by their names; see Machines.settings()."""
        return {name: self.machines.settings(name) for name in self.ADDRESSES}

    @staticmethod
    def folders():
        """Those of agents of this checkout's beds."""
        return [path for path in agent.FOLDERS.glob(f'{runs.CHECKOUT}.*')
                if path.is_dir()]
