# SPDX-License-Identifier: Apache-2.0
"""A program that tries what whoever has taken over a process may reach.

It runs in place of the process, under its unit, and prints one line of JSON:

* ``written``: files and folders that it could have changed. Nothing is
  changed; folders get a file that goes at once. Those of its own in /proc
  are left out.
* ``connected``: sockets that took a connection of its.
* ``done``: what it could make the kernel do, of CALLS.
* ``signalled``: processes of others to which it may send signals.

It needs nothing but Python, which any user can run.
"""

import contextlib
import ctypes
import errno
import json
import os
import signal
import socket
import stat
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SYS_BPF, SYS_PTRACE, SYS_ADD_KEY = 321, 101, 248
SHOWN = 'found: '


def writable_mounts():
    """Where file systems are mounted that can be written at all."""
    with open('/proc/self/mountinfo') as lines:
        for line in lines:
            fields = line.split()
            own, after = fields[5].split(','), fields.index('-')
            if 'rw' in own and 'rw' in fields[after + 3].split(','):
                yield fields[4]


def can_write(path, mode):
    """Whether a file's content, or a folder's, could be another."""
    try:
        if stat.S_ISDIR(mode):
            probe = os.path.join(path, f'thief-{os.getpid()}')
            os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.unlink(probe)
        elif stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
            # A pipe without a reader could be written, but for that.
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK
                             | os.O_NOFOLLOW))
        else:
            return False
    except OSError as error:
        return error.errno == errno.ENXIO
    return True


def written():
    # Paths below another mount are hidden.
    for top in filter(os.path.lexists, sorted(set(writable_mounts()))):
        device = os.lstat(top).st_dev
        for folder, folders, files in os.walk(top):
            if folder == '/proc':
                folders[:] = [name for name in folders
                              if name not in (str(os.getpid()), 'self',
                                              'thread-self')]
            for path in (folder, *(os.path.join(folder, name)
                                   for name in files)):
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    if status.st_dev == device and can_write(
                            path, status.st_mode):
                        yield path


def connected():
    """Return the Unix sockets with a listener in this network namespace."""
    with open('/proc/self/net/unix') as lines:
        paths = {fields[7] for fields in map(str.split, lines)
                 if len(fields) > 7}
    for path in sorted(paths):
        address = '\0' + path[1:] if path[0] == '@' else path
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM,
                     socket.SOCK_SEQPACKET):
            with (contextlib.suppress(OSError),
                  socket.socket(socket.AF_UNIX, kind) as client):
                client.settimeout(1)
                client.connect(address)
                yield path
                break


def new_socket(*words):
    def call():
        socket.socket(*words).close()
        return True
    return call


def syscall(*words):
    return lambda: LIBC.syscall(*words) != -1


CALLS = {
    'bpf': syscall(SYS_BPF, 0, None, 0),
    'ptrace': syscall(SYS_PTRACE, 16, 1, None, None),
    'keys': syscall(SYS_ADD_KEY, b'user', b'thief', b'x', 1, -3),
    'namespace of users': lambda: not LIBC.unshare(CLONE_NEWUSER),
    'namespace of networks': lambda: not LIBC.unshare(CLONE_NEWNET),
    'mount': lambda: not LIBC.mount(b'none', b'/tmp', b'tmpfs', 0, None),
    'raw IPv4': new_socket(socket.AF_INET, socket.SOCK_RAW,
                           socket.IPPROTO_ICMP),
    'frames': new_socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    'netlink': new_socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
}


def done():
    for name, call in CALLS.items():
        with contextlib.suppress(OSError):
            if call():
                yield name


def signalled():
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                os.kill(int(name), 0)
                yield int(name)


def main():
    print(SHOWN + json.dumps({
        'written': sorted(set(written())), 'connected': list(connected()),
        'signalled': list(signalled()), 'done': list(done())}), flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        time.sleep(3600)


if __name__ == '__main__':
    main()
