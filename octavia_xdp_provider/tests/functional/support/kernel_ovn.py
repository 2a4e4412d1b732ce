# SPDX-License-Identifier: Apache-2.0
"""OVN, and hypervisors whose Open vSwitch is the kernel's.

As on a hypervisor in production: taps are ports of br-int, Geneve is the
kernel's, and connection tracking too. The hypervisors are namespaces; OVN's
databases are reached by sockets of files, which namespaces share. Needs a
kernel with Open vSwitch and Geneve, and programs below build/ovn, where the
lab unpacks them.
"""

import os
import pathlib
import re
import subprocess
import tempfile

from lab import processes
from lab.ovn import packages
from octavia_xdp_provider.tests.functional.support import fabric

# Seconds that something may take, in a guest that is emulated.
LONG_S = 240
_LOGGING = ('-vconsole:emer', '-vsyslog:off', '-vfile:off')


def missing():
    """Return what is missing, or None."""
    if not packages.DIRECTORY.is_dir():
        return ('Open vSwitch is not unpacked: python -m lab.ovn.packages '
                'does it')
    for module in 'openvswitch', 'vport-geneve':
        if subprocess.run(('modprobe', module), check=False,
                          capture_output=True).returncode:
            return f'the kernel has no module {module}'
    return None


class Place:
    """A folder with databases and sockets, for programs of one namespace."""

    def __init__(self, test, namespace=None):
        directory = tempfile.TemporaryDirectory()
        test.addCleanup(directory.cleanup)
        self.test, self.namespace = test, namespace
        self.directory = pathlib.Path(directory.name)
        self._environment = {**os.environ, **{
            name: str(value) for name, value in packages.environment(
                self.directory, self.directory).items()}}

    def _words(self, program, words):
        inside = (('nsenter', f'--net=/run/netns/{self.namespace}')
                  if self.namespace else ())
        return (*inside, str(packages.program(program)), *map(str, words))

    def run(self, program, *words):
        return fabric.command(*self._words(program, words),
                              env=self._environment)

    def start(self, program, *words):
        """Until the test ends, or the process is ended by it."""
        process = subprocess.Popen(self._words(program, (*words, *_LOGGING)),
                                   env=self._environment)
        self.test.addCleanup(end, process)
        return process

    def database(self, name, schema):
        """Start a server of a database, empty at first; where it is."""
        path, socket = (self.directory / f'{name}.{suffix}'
                        for suffix in ('conf', 'sock'))
        if not path.exists():
            self.run('ovsdb-tool', 'create', path, packages.schema(schema))
        self.server = self.start(
            'ovsdb-server', path, f'--remote=punix:{socket}',
            f'--unixctl={self.directory}/{name}.ctl')
        processes.wait_for(f'database {name}', socket.exists, LONG_S)
        return f'unix:{socket}'


class Central(Place):
    """OVN's databases and northd."""

    def __init__(self, test):
        super().__init__(test)
        self.north = self.database('nb', 'ovn-nb.ovsschema')
        self.south = self.database('sb', 'ovn-sb.ovsschema')
        self.run('ovn-nbctl', f'--db={self.north}', 'init')
        self.run('ovn-sbctl', f'--db={self.south}', 'init')
        self.start('ovn-northd', f'--ovnnb-db={self.north}',
                   f'--ovnsb-db={self.south}',
                   f'--unixctl={self.directory}/northd.ctl')

    def change(self, *commands):
        """Commands of ovn-nbctl, each a text; hypervisors have followed."""
        for command in commands:
            self.run('ovn-nbctl', f'--db={self.north}', *_parts(command))
        self.run('ovn-nbctl', f'--db={self.north}', f'--timeout={LONG_S}',
                 '--wait=hv', 'sync')


class Switch(Place):
    """Open vSwitch of a hypervisor, with the kernel's datapath."""

    def __init__(self, test, namespace):
        super().__init__(test, namespace)
        self.remote = self.database('db', 'vswitch.ovsschema')
        self.set('--no-wait', 'init')
        self.start_switch()

    def start_switch(self):
        self.switch = self.start('ovs-vswitchd', self.remote,
                                 f'--unixctl={self.directory}/vswitchd.ctl')

    def set(self, *words):
        return self.run('ovs-vsctl', f'--db={self.remote}',
                        f'--timeout={LONG_S}', *words)

    def start_controller(self, south, address):
        """ovn-controller, whose tunnels end at an address of this host."""
        self.set('set', 'Open_vSwitch', '.', *(
            f'external_ids:{name}={value}' for name, value in {
                'system-id': self.namespace, 'hostname': self.namespace,
                'ovn-remote': south, 'ovn-encap-type': 'geneve',
                'ovn-encap-ip': address,
                'ovn-bridge-datapath-type': 'system'}.items()))
        self.start('ovn-controller', self.remote)
        processes.wait_for('br-int', lambda: 'br-int' in self.set(
            'list-br').split(), LONG_S)

    def plug(self, tap, port_id):
        """Plug a tap as os-vif does without hybrid plugging."""
        self.set('add-port', 'br-int', tap, '--', 'set', 'Interface', tap,
                 f'external_ids:iface-id={port_id}')

    def connections(self):
        """Return the kernel's connections, as Open vSwitch shows them."""
        return self.run('ovs-dpctl', 'dump-conntrack')

    def packets(self):
        """Packets that Open vSwitch has looked at."""
        shown = self.run('ovs-dpctl', 'show')
        return sum(map(int, re.search(
            r'hit:(\d+) missed:(\d+)', shown).groups()))


def end(process):
    process.terminate()
    try:
        process.wait(LONG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _parts(text):
    """Words of a command; what is in quotes is one."""
    return [quoted or plain for quoted, plain
            in re.findall(r'"([^"]*)"|(\S+)', text)]
