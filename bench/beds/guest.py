# SPDX-License-Identifier: Apache-2.0
"""Beds of namespaces in a guest with one of Debian's kernels, under QEMU.

One guest contains all hosts, made by the same code as without a guest. An
agent in it serves requests through a virtio port, so that the guest needs no
network; it shares the files of this machine. Scenarios run on this machine and
only the commands of hosts in the guest. Running everything in the guest would
emulate the reports too, and lose results in its memory if it died.
"""

from collections.abc import Iterator
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import time
from typing import Any

from bench import errors
from bench.beds import channel
from bench.beds import declaration
from bench.beds import interface
from bench.beds import local
from bench.beds import nics
from bench.beds import runs
from lab import paths
from lab import processes

ON_KERNEL = paths.CHECKOUT / 'tools/on-kernel'
AGENT = paths.CHECKOUT / 'bench/beds/agent.py'
# Generous: a kernel may have to be fetched first, and the guest may be
# emulated on a busy machine.
BOOT_S, MAKE_S = 900, 900
# Seconds that one second of an instruction-counting guest may take on this
# machine; an otherwise idle processor takes about three.
COUNTING_PATIENCE = 60
# The guest's own limit; normally it ends with the bed.
LIFE_S = 7 * 24 * 3600
# The number of the port's device varies, so it is found by its name. The
# folder of runs is hidden, since this machine's runs are not the guest's.
_COMMAND = '''
modprobe virtio_console
for port in /sys/class/virtio-ports/*; do
    if [ "$(cat "$port/name")" = channel ]; then
        mount -t tmpfs none {runs}
        exec {python} {agent} guest <> "/dev/${{port##*/}}" >&0
    fi
done
echo 'no virtio port' >&2
exit 1
'''


class Bed:
    """Hosts in a guest; see interface.Bed."""

    def __init__(self, declared: declaration.Bed, package: str,
                 hosts: dict[str, channel.Host]):
        self.name, self.hosts = declared.name, hosts
        # Other load of this machine affects figures too.
        self.machines: dict[str, interface.Host] = {
            'guest': next(iter(hosts.values())),
            'machine': local.Host('machine', '', pathlib.Path(
                '/proc/self/ns/net'), pathlib.Path('/nonexistent'), {})}
        self.counts_instructions = declared.guest.count_instructions
        self._declared, self._package = declared, package

    def by_role(self, role: str) -> list[channel.Host]:
        return [host for host in self.hosts.values() if host.role == role]

    def fingerprint(self) -> dict[str, Any]:
        return {
            'provider': declaration.GUEST,
            'declaration': self._declared.content,
            'guest': {
                'kernel': self._package,
                'parameters': self._declared.guest.parameters,
                'memory_mib': self._declared.guest.memory,
                'cpus': self._declared.guest.cpus,
                'count_instructions':
                    self._declared.guest.count_instructions,
                'qemu': _qemu_version(),
            },
            'interfaces': {
                host.name: {name: nics.describe(host, end.name)
                            for name, end in host.interfaces.items()
                            if end.peers}
                for host in self.hosts.values()},
        }


class Provider:
    """Builds beds in guests; see interface.Provider."""

    name = declaration.GUEST

    @contextlib.contextmanager
    def build(self, declared: declaration.Bed, run: str) -> Iterator[Bed]:
        with contextlib.ExitStack() as stack:
            lab = stack.enter_context(runs.hold(run))
            guest = stack.enter_context(_booted(lab, declared.guest))
            folder = guest.channel.ready(BOOT_S)
            made = _make(guest.channel, declared, run)
            hosts = {name: _host(guest.channel, folder, name, host)
                     for name, host in made.items()}
            yield Bed(declared, guest.package, hosts)


class _Guest:
    """A virtual machine with an agent.

    :param log: file with the output of on-kernel and of the guest.
    """

    def __init__(self, child: subprocess.Popen, log: pathlib.Path,
                 kernel: str, connection: socket.socket,
                 patience: float = 1.0):
        self._child, self._log = child, log
        stream = connection.makefile('rwb', buffering=0)
        self.channel = channel.Channel(
            f'guest with kernel {kernel}', stream,
            connection.makefile('rb'), self._why, patience)

    @property
    def package(self) -> str:
        """The kernel's package and how it runs, as tools/on-kernel prints."""
        return next((line for line in self._log.read_text(
            errors='replace').splitlines() if line.startswith('on-kernel: ')),
            '')

    def _why(self):
        return _end_of(self._log) or 'it has ended'


@contextlib.contextmanager
def _booted(lab, guest):
    path = lab.run_directory / 'guest'
    log = lab.logs / 'guest.log'
    command = _COMMAND.format(runs=runs.FOLDER, python=sys.executable,
                              agent=AGENT)
    with open(log, 'ab') as output:
        child = subprocess.Popen(
            [ON_KERNEL, '--timeout', str(LIFE_S), '--memory',
             str(guest.memory), '--cpus', str(guest.cpus),
             '--parameters', guest.parameters, '--channel', path,
             *(['--count-instructions'] if guest.count_instructions else []),
             guest.kernel, '--', 'sh', '-c', command],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, env=local.environment())
    # So that clean-up finds the process if this run is killed.
    lab.state.put(processes.SECTION, 'guest', {
        'name': 'guest', 'host': None, 'argv': [], 'env': {}, 'cwd': None,
        'log': str(log), 'pid': child.pid,
        'started': processes.start_time(child.pid)})
    try:
        with _connected(child, path, log) as connection:
            yield _Guest(child, log, guest.kernel, connection,
                         COUNTING_PATIENCE if guest.count_instructions else 1)
    finally:
        # on-kernel ends QEMU, and namespaces vanish with the guest.
        child.terminate()
        child.wait()


def _connected(child, path, log):
    """Connect to QEMU, which listens before the guest boots."""
    deadline = time.monotonic() + BOOT_S
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
            return connection
        except OSError:
            connection.close()
        if child.poll() is not None or time.monotonic() > deadline:
            raise errors.BenchError(
                f'the guest does not start: {_end_of(log)}')
        time.sleep(0.1)


def _make(agent, declared, run):
    """Start a process in the guest that makes and keeps the hosts."""
    number = agent.ask('start', arguments=[
        'env', f'PYTHONPATH={paths.CHECKOUT}', sys.executable, '-P', '-m',
        'bench.beds.in_guest'], log='in_guest.log')['process']
    maker = channel.Process(agent, number, 'guest: bench.beds.in_guest')
    maker.write(json.dumps({'declaration': declared.content,
                            'run': run}) + '\n')
    try:
        answer = json.loads(maker.line(MAKE_S))
    except subprocess.TimeoutExpired:
        raise errors.BenchError(
            f'test bed {declared.name} was not made within {MAKE_S} s in the '
            'guest') from None
    except EOFError:
        raise errors.BenchError(
            f'test bed {declared.name}: the process that makes it in the '
            f'guest has ended: {_log_of(agent)}') from None
    if 'error' in answer:
        raise errors.BenchError(f'in the guest: {answer["error"]}')
    return answer['hosts']


def _log_of(agent):
    folder = agent.ready(0)
    host = channel.Host(agent, 'guest', '', folder, {})
    return host.read(folder / 'in_guest.log').decode(errors='replace')


def _host(agent, folder, name, made):
    interfaces = {
        key: interface.Interface(**{
            **end, 'addresses': tuple(end['addresses']),
            'peers': tuple(end['peers'])})
        for key, end in made['interfaces'].items()}
    return channel.Host(
        agent, name, made['role'], folder / name, interfaces,
        ['nsenter', f'--net={made["namespace"]}', '--'])


def _qemu_version():
    done = subprocess.run(['qemu-system-x86_64', '--version'], text=True,
                          capture_output=True, check=False)
    return done.stdout.split('\n')[0]


def _end_of(log):
    try:
        return log.read_text(errors='replace').strip()[-2000:]
    except FileNotFoundError:
        return ''
