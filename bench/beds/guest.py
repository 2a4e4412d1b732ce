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
import socket
import subprocess
import sys
import time

from bench import errors
from bench.beds import agent
from bench.beds import channel
from bench.beds import declaration
from bench.beds import interface
from bench.beds import namespaces
from bench.beds import runs
from lab import paths

ON_KERNEL = paths.CHECKOUT / 'tools/on-kernel'
# Generous: a kernel may have to be fetched first, and the guest may be
# emulated on a busy machine.
BOOT_S = 900
# Seconds that one second of an instruction-counting guest may take on this
# machine; an otherwise idle processor takes about three.
COUNTING_PATIENCE = 60
# The guest's own limit; normally it ends with the bed.
LIFE_S = 7 * 24 * 3600
# Seconds for on-kernel to end QEMU.
END_S = 60
# The number of the port's device varies, so it is found by its name.
_COMMAND = f'''
modprobe virtio_console
for port in /sys/class/virtio-ports/*; do
    if [ "$(cat "$port/name")" = channel ]; then
        exec {sys.executable} -P {agent.__file__} guest \\
            <> "/dev/${{port##*/}}" >&0
    fi
done
echo 'no virtio port' >&2
exit 1
'''
_LOG = 'guest.log'


class Provider:
    """Builds beds in guests; see interface.Provider."""

    name = declaration.GUEST

    @contextlib.contextmanager
    def build(self, declared: declaration.Bed, run: str,
              ) -> Iterator[interface.Bed]:
        with (runs.hold(run) as held,
              _booted(held.machine, declared.guest) as asked):
            guest = channel.Host(asked, 'guest', '', asked.ready(BOOT_S), {})
            hosts = namespaces.make(guest, declared, run)
            yield interface.Bed(
                declared, hosts,
                # Other load of this machine affects figures too.
                {'guest': guest, 'machine': held.machine},
                {'guest': {
                    'kernel': _package(held.machine),
                    'parameters': declared.guest.parameters,
                    'memory_mib': declared.guest.memory,
                    'cpus': declared.guest.cpus,
                    'count_instructions': declared.guest.count_instructions,
                    'qemu': _qemu_version()}},
                declared.guest.count_instructions)


@contextlib.contextmanager
def _booted(machine, guest):
    """Yield the channel of the agent in a new guest."""
    path = machine.folder / 'guest'
    # The log has on-kernel's output, too.
    child = machine.start(
        ['sh', '-c', 'exec "$0" "$@" < /dev/null >&2', ON_KERNEL,
         '--timeout', LIFE_S, '--memory', guest.memory, '--cpus', guest.cpus,
         '--parameters', guest.parameters, '--channel', path,
         *(['--count-instructions'] if guest.count_instructions else []),
         guest.kernel, '--', 'sh', '-c', _COMMAND], log=_LOG)
    try:
        with _connected(machine, child, path) as connection:
            yield channel.Channel(
                f'guest with kernel {guest.kernel}',
                connection.makefile('rwb', buffering=0),
                connection.makefile('rb'),
                lambda: _log(machine) or 'it has ended',
                COUNTING_PATIENCE if guest.count_instructions else 1)
    finally:
        # on-kernel ends QEMU, and namespaces vanish with the guest.
        child.stop(END_S)


def _connected(machine: interface.Host, child: interface.Process,
               path) -> socket.socket:
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
                f'the guest does not start: {_log(machine)}')
        time.sleep(0.1)


def _log(machine):
    """Return the end of what on-kernel and the guest have printed."""
    with contextlib.suppress(errors.BenchError):
        return machine.read(machine.folder / _LOG).decode(
            errors='replace').strip()[-2000:]
    return ''


def _package(machine):
    """Return the kernel's package and how it runs, as on-kernel prints."""
    return next((line for line in machine.read(machine.folder / _LOG).decode(
        errors='replace').splitlines() if line.startswith('on-kernel: ')), '')


def _qemu_version():
    done = subprocess.run(['qemu-system-x86_64', '--version'], text=True,
                          capture_output=True, check=False)
    return done.stdout.split('\n')[0]
