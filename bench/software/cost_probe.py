#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs on a host of a bed and tells what it costs there: see cost.py.

It needs nothing but Python's standard library, as it is copied to hosts.

    cost_probe.py watch GROUP KIND DEVICE…
                                      answer "look" lines until the input ends
    cost_probe.py run GROUP COMMAND…  execute a command as one of the group
    cost_probe.py poll|unpoll DEVICE… move receiving into kernel threads, back
    cost_probe.py sweep               remove groups that nothing is in
    cost_probe.py groups              names of groups
    cost_probe.py machine             which kernel this is: its boot's id
"""

import contextlib
import ctypes
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
# The bed's own folder on this host, which goes with the bed.
HERE = pathlib.Path(__file__).resolve().parent
# Names of the threads that receive for this host, once they were found, and
# devices whose GRO was off.
STATE = HERE / 'cost_state.json'
SHARED, OWN = KINDS = ('shared', 'own')

# Of linux/sched.h and linux/mount.h.
CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
# Of linux/ethtool.h and linux/sockios.h.
SIOCETHTOOL = 0x8946
ETHTOOL_GTSO, ETHTOOL_GGRO, ETHTOOL_SGRO = 0x1e, 0x2b, 0x2c

# Memory of a socket that skmem of ss(8) names: receive, write queue, forward
# allocation, options, backlog.
_SKMEM = re.compile(r'skmem:\(([^)]*)\)')
_COUNTED = ('r', 'w', 'f', 'o', 'bl')


class ProbeError(Exception):
    """Shown as one line."""


def main(arguments):
    try:
        word, *rest = arguments
        if word == 'watch':
            watch(*rest)
        elif word == 'run':
            run(rest[0], rest[1:])
        elif word == 'poll':
            with mounts() as (groups, devices), locked(groups):
                print(json.dumps(poll(devices, rest)))
        elif word == 'unpoll':
            with mounts() as (_groups, devices):
                unpoll(devices, rest)
        elif word == 'sweep':
            with mounts() as (groups, _devices), locked(groups):
                print(json.dumps(sweep(groups)))
        elif word == 'groups':
            with mounts() as (groups, _devices):
                print(*sorted(path.name for path in groups.glob(PREFIX + '*')))
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
    """(cgroup2's root, /sys/class/net of this network namespace).

    In a mount namespace of its own: what is mounted at the usual places may be
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
        # Never what is still mounted: directories that are empty, alone.
        with contextlib.suppress(OSError):
            for kind in ('cgroup2', 'sysfs'):
                (folder / kind).rmdir()
            folder.rmdir()


def poll(devices, names):
    """Let what is received be processed by kernel threads, one a queue.

    Threads are named after device and NAPI instance: the first is not unique
    on a machine of many namespaces, the second is. Before Linux 6.17 threads
    stay when they are switched off, so those found once are kept in mind.

    :param names: of devices of the bed. Others are left alone.
    :returns: ids of the threads.
    :raises ProbeError: a device hands packets on in the context of whoever
        sends them.
    """
    known, without_gro = set(state()['threads']), []
    for device in (devices / name for name in names):
        if ethtool(device.name, ETHTOOL_GTSO):
            # A veth pair bypasses NAPI for what was not cut into packets.
            raise ProbeError(
                f'{device.name} has TSO on, with which it hands packets over '
                'in the context of their sender: no cost of either can be '
                'told; switch offloads tso, gso and tx of the link off')
        if not ethtool(device.name, ETHTOOL_GGRO):
            # With it a veth device polls, if it has no XDP program either.
            with contextlib.suppress(OSError):
                ethtool(device.name, ETHTOOL_SGRO, 1)
                without_gro.append(device.name)
        before = kernel_threads(device.name)
        try:
            (device / 'threaded').write_text('1')
        except OSError:  # A bridge or tunnel: it has no queue of its own.
            continue
        # Those of another namespace's device of this name, made in the same
        # moment, would be taken for these: hence the lock.
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
        with contextlib.suppress(OSError):  # A device that has gone.
            ethtool(name, ETHTOOL_SGRO, 0)


def kernel_threads(device=None):
    """Name → id of the threads that receive, in any network namespace."""
    name = re.compile(rf'napi/{re.escape(device) if device else ".*"}-\d+')
    found = {}
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                comm = (entry / 'comm').read_text().strip()
                if name.fullmatch(comm):
                    found[comm] = int(entry.name)
    return found


def ethtool(device, command, value=0):
    """One flag of a device: 0 if it has none, or OSError from a change."""
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


def run(name, command):
    """Become the command, as a process of the group."""
    own = os.getpid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with mounts() as (groups, _devices):
                (groups / (PREFIX + name) / 'cgroup.procs').write_text(
                    str(own))
            status = 0
        except (ProbeError, OSError) as error:
            print(f'cost_probe: {error}', file=sys.stderr)
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise ProbeError(f'cannot put {command[0]} into the group {name}')
    os.execvp(command[0], command)


def watch(name, kind, *names):
    """Own the group until the input ends, or TERM."""
    if kind not in KINDS:
        raise ProbeError(f'no such kind: {kind}')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with mounts() as (groups, devices):
        group = groups / (PREFIX + name)
        with locked(groups):
            sweep(groups)
            group.mkdir()
        # Held until the end: none sweeps the group away while it is empty.
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
    """:returns: ids of the threads that receive, now of the group."""
    if kind != SHARED:
        return []
    with locked(groups):
        threads = poll(devices, names)
    for thread in threads:
        (group / 'cgroup.procs').write_text(str(thread))
    return threads


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
    """Take a process and all that descends from it into the group.

    Parents first: what they start from then on is of the group already.
    """
    (group / 'cgroup.procs').write_text(str(process))
    for child in children(process):
        # It may have ended; the process itself must not.
        with contextlib.suppress(ProcessLookupError):
            adopt(group, child)


def children(process):
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # proc_pid_stat(5): the name, in parentheses, may have any.
            fields = path.read_text().rpartition(')')[2].split()
            if int(fields[1]) == process:
                found.append(int(path.parent.name))
    return found


def group_seconds(group, threads):
    """Time that threads of the group ran, those that have ended too.

    cpu.stat is of cgroup2 itself: it needs no controller. Linux adds up the
    time of each thread when it is switched, in ns.
    """
    members = {int(line) for line in
               (group / 'cgroup.procs').read_text().split()}
    if not set(threads) <= members:
        raise ProbeError('a thread that receives has ended: a device of this '
                         'host was set up anew, or removed')
    return stat(group / 'cpu.stat')['usage_usec'] / 1e6


def stat(path):
    return {name: int(value) for name, value in
            (line.split() for line in path.read_text().splitlines())}


def machine_seconds():
    """Time that CPUs of this machine were not idle, since its boot."""
    fields = pathlib.Path('/proc/stat').read_text().splitlines()[0].split()
    # proc_stat(5): idle, iowait and steal are columns 4, 5 and 8. Idle time is
    # measured, with CONFIG_NO_HZ; what is busy is sampled at each tick, which
    # misses short interrupts.
    ticks = os.sysconf('SC_CLK_TCK')
    idle = sum(int(fields[column]) for column in (4, 5, 8)) / ticks
    return os.sysconf('SC_NPROCESSORS_ONLN') * time.clock_gettime(
        time.CLOCK_BOOTTIME) - idle


def memory(group, threads):
    """Bytes by what they are for."""
    processes = 0
    for line in (group / 'cgroup.procs').read_text().split():
        if int(line) in threads:
            continue
        # Of a process that has ended meanwhile nothing is left.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            processes += proportional(int(line))
    return {'processes': processes, 'sockets': sockets(),
            'connections': ipvs_connections()}


def proportional(process):
    """Its resident memory; pages that processes share are divided by how many
    share them (PSS)."""
    path = pathlib.Path(f'/proc/{process}/smaps_rollup')
    for line in path.read_text().splitlines():
        if line.startswith('Pss:'):
            return int(line.split()[1]) * 1024
    raise ProbeError(f'{path} has no Pss')


def sockets():
    """Of TCP, of this network namespace: their objects and buffers."""
    found = subprocess.run(
        ['ss', '--tcp', '--all', '--memory', '--numeric', '--no-header',
         '--oneline'], check=True, capture_output=True, text=True)
    return socket_bytes(found.stdout, object_sizes('TCP', 'tw_sock_TCP'))


def socket_bytes(text, sizes):
    """:param text: what ss printed, a socket a line."""
    total = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        waits = line.split()[0] in ('TIME-WAIT', 'SYN-RECV')
        total += sizes['tw_sock_TCP' if waits else 'TCP']
        for found in _SKMEM.findall(line):
            for field in found.split(','):
                name, value = re.fullmatch(r'([a-z]+)(\d+)', field).groups()
                total += int(value) if name in _COUNTED else 0
    return total


def object_sizes(*names):
    """Bytes of an object, by name of its slab."""
    listed = pathlib.Path('/proc/slabinfo').read_text()
    sizes = {}
    for name in names:
        # Slabs of one size may be one, which is listed by another name.
        alias = pathlib.Path(f'/sys/kernel/slab/{name}/slab_size')
        found = re.search(rf'^{name} +\d+ +\d+ +(\d+) ', listed,
                          re.MULTILINE)
        if alias.exists():
            sizes[name] = int(alias.read_text())
        elif found:
            sizes[name] = int(found[1])
        else:
            raise ProbeError(f'neither /proc/slabinfo nor /sys/kernel/slab '
                             f'has {name}: what objects take cannot be told')
    return sizes


def ipvs_connections():
    """Of this network namespace, with IPVS's table of them, if it is there."""
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
    """Give what runs in a group back to the root, and remove it."""
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
    """Remove groups of runs that were killed.

    :returns: their names. One with processes in it is of a run that goes on.
    """
    removed = []
    for group in groups.glob(PREFIX + '*'):
        with contextlib.suppress(OSError), locked(group, fcntl.LOCK_NB):
            group.rmdir()
            removed.append(group.name)
    return removed


@contextlib.contextmanager
def locked(folder, flags=0):
    """:raises BlockingIOError: another has it, with LOCK_NB."""
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
