#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures costs on a host of a bed: see cost.py.

It needs only Python's standard library, since it is copied to hosts.

    cost_probe.py watch GROUP KIND DEVICE…
                                      answer "look" lines until the input ends
    cost_probe.py poll|unpoll DEVICE… move receiving into kernel threads, back
    cost_probe.py machine             which kernel this is: its boot's id
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

PREFIX = 'octavia-xdp-bench-'
# The bed's folder on this host, which is removed with the bed.
HERE = pathlib.Path(__file__).resolve().parent
# Names of the threads found to receive for this host, and devices whose GRO
# was off.
STATE = HERE / 'cost_state.json'
SHARED, OWN = KINDS = ('shared', 'own')

# From linux/sched.h and linux/mount.h.
CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
# From linux/ethtool.h and linux/sockios.h.
SIOCETHTOOL = 0x8946
ETHTOOL_GTSO, ETHTOOL_GGRO, ETHTOOL_SGRO = 0x1e, 0x2b, 0x2c

# Memory of a socket in skmem of ss(8): receive, write queue, forward
# allocation, options, backlog.
_SKMEM = re.compile(r'skmem:\(([^)]*)\)')
_COUNTED = ('r', 'w', 'f', 'o', 'bl')


class ProbeError(Exception):
    """An error that is shown as one line."""


def main(arguments):
    try:
        word, *rest = arguments
        if word == 'watch':
            watch(*rest)
        elif word == 'poll':
            with mounts() as (groups, devices), locked(groups):
                print(json.dumps(poll(devices, rest)))
        elif word == 'unpoll':
            with mounts() as (_groups, devices):
                unpoll(devices, rest)
        elif word == 'machine':
            print(boot_id())
        else:
            raise ProbeError(f'no such command: {word}')
    except (ProbeError, OSError) as error:
        print(f'cost_probe: {error}', file=sys.stderr)
        return 1
    return 0


def boot_id():
    return pathlib.Path(
        '/proc/sys/kernel/random/boot_id').read_text().strip()


@contextlib.contextmanager
def mounts():
    """Yield (root of cgroup2, /sys/class/net of this network namespace).

    Mounts them in a separate mount namespace, because the usual mounts may be
    of another network namespace, or covered.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.unshare(CLONE_NEWNS), 'unshare')
    _checked(libc.mount(b'none', b'/', None, MS_REC | MS_PRIVATE, None),
             'mount --make-rprivate /')
    folder = pathlib.Path(tempfile.mkdtemp(prefix='mounts-', dir=HERE))
    try:
        for kind in ('cgroup2', 'sysfs'):
            (folder / kind).mkdir()
            _checked(libc.mount(kind.encode(), bytes(folder / kind),
                                kind.encode(), 0, None), f'mount {kind}')
        yield folder / 'cgroup2', folder / 'sysfs' / 'class' / 'net'
    finally:
        for kind in ('cgroup2', 'sysfs'):
            libc.umount2(bytes(folder / kind), 2)  # MNT_DETACH
        # Remove empty directories only, never what is still mounted.
        with contextlib.suppress(OSError):
            for kind in ('cgroup2', 'sysfs'):
                (folder / kind).rmdir()
            folder.rmdir()


def poll(devices, names):
    """Process received packets in kernel threads, one for each queue.

    Threads are named after device and NAPI instance, of which only the latter
    is unique on a machine with many namespaces. Before Linux 6.17, threads
    remain when they are switched off, so known ones are recorded.

    :param names: names of devices of the bed; others are left alone.
    :returns: ids of the threads.
    :raises ProbeError: a device forwards packets in the context of their
        sender.
    """
    known, without_gro = set(state()['threads']), []
    for device in (devices / name for name in names):
        if ethtool(device.name, ETHTOOL_GTSO):
            # A veth pair bypasses NAPI for packets that are not segmented.
            raise ProbeError(
                f'{device.name} has TSO on, with which it hands packets over '
                'in the context of their sender: no cost of either can be '
                'told; switch offloads tso, gso and tx of the link off')
        if not ethtool(device.name, ETHTOOL_GGRO):
            # With GRO, a veth device polls even without an XDP program.
            with contextlib.suppress(OSError):
                ethtool(device.name, ETHTOOL_SGRO, 1)
                without_gro.append(device.name)
        before = kernel_threads(device.name)
        try:
            (device / 'threaded').write_text('1')
        except OSError:  # A bridge or tunnel, which has no queue.
            continue
        # The lock prevents confusion with threads of a device of this name in
        # another namespace, created at the same moment.
        known |= set(kernel_threads(device.name)) - set(before)
    STATE.write_text(json.dumps({'threads': sorted(known),
                                 'without_gro': without_gro}))
    alive = kernel_threads()
    return sorted(alive[name] for name in known & set(alive))


def state():
    if STATE.exists():
        return json.loads(STATE.read_text())
    return {'threads': [], 'without_gro': []}


def unpoll(devices, names):
    for device in (devices / name for name in names):
        with contextlib.suppress(OSError):
            if (device / 'threaded').read_text().strip() != '0':
                (device / 'threaded').write_text('0')
    for name in state()['without_gro']:
        with contextlib.suppress(OSError):  # The device may be gone.
            ethtool(name, ETHTOOL_SGRO, 0)


def kernel_threads(device=None):
    """Return ids of receiving threads by name, in all network namespaces."""
    name = re.compile(rf'napi/{re.escape(device) if device else ".*"}-\d+')
    threads = {}
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                comm = (entry / 'comm').read_text().strip()
                if name.fullmatch(comm):
                    threads[comm] = int(entry.name)
    return threads


def ethtool(device, command, value=0):
    """Get a flag of a device (0 if it has none), or set it, or OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        buffer = ctypes.create_string_buffer(struct.pack('II', command, value))
        request = struct.pack('16sP', device.encode(),
                              ctypes.addressof(buffer))
        try:
            fcntl.ioctl(control, SIOCETHTOOL, request.ljust(40, b'\0'))
        except OSError:
            if value:
                raise
            return 0
    return struct.unpack('II', buffer.raw[:8])[1]


def watch(name, kind, *names):
    """Create the group and answer requests until the input ends, or TERM."""
    if kind not in KINDS:
        raise ProbeError(f'no such kind: {kind}')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with mounts() as (groups, devices):
        group = groups / (PREFIX + name)
        with locked(groups):
            sweep(groups)
            group.mkdir()
        # Hold a lock, so that nobody sweeps the group while it is empty.
        with locked(group):
            try:
                threads = poll_group(groups, group, devices, kind, names)
                say(process=os.getpid(), threads=threads)
                for line in sys.stdin:
                    answer(line.split(), group, kind, threads)
            finally:
                empty(groups, group)
                if kind == SHARED:
                    unpoll(devices, names)


def poll_group(groups, group, devices, kind, names):
    """:returns: ids of receiving threads, which are moved into the group."""
    if kind != SHARED:
        return []
    with locked(groups):
        threads = poll(devices, names)
    for thread in threads:
        move(group, thread)
    return threads


def move(group, thread):
    """Move a kernel thread, which is refused until it has begun to run."""
    deadline = time.monotonic() + 5
    while True:
        try:
            (group / 'cgroup.procs').write_text(str(thread))
            return
        except OSError as error:
            if error.errno != errno.EINVAL or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def say(**values):
    print(json.dumps(values), flush=True)


def answer(words, group, kind, threads):
    try:
        if words == ['look']:
            say(cpu_seconds=(group_seconds(group, threads) if kind == SHARED
                             else machine_seconds()),
                memory=memory(group, threads))
        elif len(words) == 2 and words[0] == 'adopt':
            adopt(group, int(words[1]))
            say()
        else:
            raise ProbeError(f'not understood: {words}')
    except (ProbeError, OSError) as error:
        say(error=str(error))


def adopt(group, process):
    """Move a process and its descendants into the group.

    Parents are moved first, since their new children then join the group.
    """
    (group / 'cgroup.procs').write_text(str(process))
    for child in children(process):
        # A child may have ended, but not the process itself.
        with contextlib.suppress(ProcessLookupError):
            adopt(group, child)


def children(process):
    pids = []
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # proc_pid_stat(5): the name in parentheses may contain some.
            fields = path.read_text().rpartition(')')[2].split()
            if int(fields[1]) == process:
                pids.append(int(path.parent.name))
    return pids


def group_seconds(group, threads):
    """Return the run time of threads of the group, including ended ones.

    cpu.stat is part of cgroup2 itself and needs no controller. Linux adds the
    time of each thread, in ns, at context switches.
    """
    members = {int(line) for line in
               (group / 'cgroup.procs').read_text().split()}
    if not set(threads) <= members:
        raise ProbeError('a thread that receives has ended: a device of this '
                         'host was set up again, or removed')
    return stat(group / 'cpu.stat')['usage_usec'] / 1e6


def stat(path):
    return {name: int(value) for name, value in
            (line.split() for line in path.read_text().splitlines())}


def machine_seconds():
    """Return the time in which this machine's CPUs were busy since boot."""
    fields = pathlib.Path('/proc/stat').read_text().splitlines()[0].split()
    # proc_stat(5): idle, iowait and steal are columns 4, 5 and 8. Idle time is
    # measured (with CONFIG_NO_HZ), whereas busy time is sampled at each tick,
    # which misses short interrupts.
    ticks = os.sysconf('SC_CLK_TCK')
    idle = sum(int(fields[column]) for column in (4, 5, 8)) / ticks
    return os.sysconf('SC_NPROCESSORS_ONLN') * time.clock_gettime(
        time.CLOCK_BOOTTIME) - idle


def memory(group, threads):
    """Return bytes by purpose."""
    processes = 0
    for line in (group / 'cgroup.procs').read_text().split():
        if int(line) in threads:
            continue
        # The process may have ended meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            processes += proportional(int(line))
    return {'processes': processes, 'sockets': sockets(),
            'connections': ipvs_connections()}


def proportional(process):
    """Return the resident memory of a process; shared pages are divided by the
    number of processes that share them (PSS)."""
    path = pathlib.Path(f'/proc/{process}/smaps_rollup')
    for line in path.read_text().splitlines():
        if line.startswith('Pss:'):
            return int(line.split()[1]) * 1024
    raise ProbeError(f'{path} has no Pss')


def sockets():
    """Return bytes of TCP sockets of this namespace: objects and buffers."""
    listed = subprocess.run(
        ['ss', '--tcp', '--all', '--memory', '--numeric', '--no-header',
         '--oneline'], check=True, capture_output=True, text=True)
    return socket_bytes(listed.stdout, object_sizes('TCP', 'tw_sock_TCP'))


def socket_bytes(text, sizes):
    """:param text: output of ss, one socket a line."""
    total = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        waits = line.split()[0] in ('TIME-WAIT', 'SYN-RECV')
        total += sizes['tw_sock_TCP' if waits else 'TCP']
        for fields in _SKMEM.findall(line):
            for field in fields.split(','):
                name, value = re.fullmatch(r'([a-z]+)(\d+)', field).groups()
                total += int(value) if name in _COUNTED else 0
    return total


def object_sizes(*names):
    """Return bytes of an object by the name of its slab."""
    listed = pathlib.Path('/proc/slabinfo').read_text()
    sizes = {}
    for name in names:
        # Slabs of one size may be merged and listed under another name.
        alias = pathlib.Path(f'/sys/kernel/slab/{name}/slab_size')
        match = re.search(rf'^{name} +\d+ +\d+ +(\d+) ', listed,
                          re.MULTILINE)
        if alias.exists():
            sizes[name] = int(alias.read_text())
        elif match:
            sizes[name] = int(match[1])
        else:
            raise ProbeError(f'neither /proc/slabinfo nor /sys/kernel/slab '
                             f'has {name}: what objects take cannot be told')
    return sizes


def ipvs_connections():
    """Return bytes of this namespace's IPVS connections and their table."""
    try:
        lines = pathlib.Path('/proc/net/ip_vs_conn').read_text().splitlines()
    except FileNotFoundError:
        return 0
    size = object_sizes('ip_vs_conn')['ip_vs_conn']
    bits = int(pathlib.Path(
        '/sys/module/ip_vs/parameters/conn_tab_bits').read_text())
    # One list head for each bucket.
    return (len(lines) - 1) * size + 8 * 2 ** bits


def empty(groups, group):
    """Move processes of a group back to the root, and remove the group."""
    deadline = time.monotonic() + 5
    while True:
        for line in (group / 'cgroup.procs').read_text().split():
            with contextlib.suppress(OSError):
                (groups / 'cgroup.procs').write_text(line)
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def sweep(groups):
    """Remove groups of killed runs, which have no processes."""
    for group in groups.glob(PREFIX + '*'):
        with contextlib.suppress(OSError), locked(group, fcntl.LOCK_NB):
            group.rmdir()


@contextlib.contextmanager
def locked(folder, flags=0):
    """:raises BlockingIOError: it is locked, with LOCK_NB."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | flags)
        yield
    finally:
        os.close(descriptor)


def _checked(result, what):
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f'{what}: {os.strerror(number)}')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
