# SPDX-License-Identifier: Apache-2.0
"""Becomes HAProxy: gives up every right, and executes the program.

The launcher starts this file as a script of its own. A process of several
threads, as the launcher is, may run next to nothing between fork and exec. It
imports nothing but Python's own library, of which little, since each start of
a load balancer waits for it.

It does nothing until it has read its order from standard input, one line of
JSON. The launcher sends it only after it has moved this process to the cgroup
of the load balancer. If the launcher dies before that, the line never ends,
and this process does: whatever becomes HAProxy is in its cgroup.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import sys
from typing import TypedDict

_CLONE_NEWNS, _CLONE_NEWNET = 0x20000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522

# What a program of the distribution needs, as far as it is there.
_SHOWN = ('/usr', '/bin', '/lib', '/lib32', '/lib64', '/etc/ssl',
          '/etc/ld.so.cache', '/etc/localtime', '/dev/null', '/dev/urandom')
_OWN = '/own'
# It creates sockets, and writes to standard error, which is shorter. A longer
# file ends it; what it writes to a tmpfs counts as its cgroup's memory.
_FILE_MAX = 1 << 20
# The first descriptor that is neither standard nor handed on.
_FIRST = 3


class Order(TypedDict):
    """What the launcher tells this process.

    :ivar namespace: path of the network namespace.
    :ivar own: path of its own directory; ``runtime``: of its sockets'.
    :ivar view: path of an empty directory.
    :ivar number: uid and gid.
    :ivar files: how many it may open; ``tasks``: how many threads it may have.
    :ivar descriptors: what it inherits, in order.
    """

    namespace: str
    arguments: list[str]
    environment: dict[str, str]
    own: str
    runtime: str
    view: str
    number: int
    files: int
    tasks: int
    descriptors: list[int]


_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f'{name}: {os.strerror(number)}')


def _mount(source: str | None, target: str, flags: int,
           kind: str | None = None, data: str | None = None) -> None:
    _call('mount', source and source.encode(), target.encode(),
          kind and kind.encode(), ctypes.c_ulong(flags),
          data and data.encode())


def _show(path: str, root: str, source: str | None = None,
          read_only: bool = True) -> None:
    """Make a file or directory of the machine part of the view."""
    source, target = source or path, root + path
    if os.path.lexists(target) and not os.path.isdir(target):
        return
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    _mount(source, target, _MS_BIND | _MS_REC)
    is_device = path.startswith('/dev/')
    _mount(None, target, _MS_BIND | _MS_REMOUNT | _MS_NOSUID
           | (0 if is_device else _MS_NODEV)
           | (_MS_RDONLY if read_only and not is_device else 0))


def enter_view(order: Order) -> None:
    """Leave the machine's files, but for programs and what is its own.

    A plain chroot: who has no capability cannot leave it, and the kernel lets
    nobody in it make a user namespace, in which it would have some again.
    """
    _call('unshare', _CLONE_NEWNS)
    _mount(None, '/', _MS_REC | _MS_PRIVATE)
    root = order['view']
    _mount('none', root, _MS_NOSUID, 'tmpfs', 'mode=755,size=64k')
    for path in (*_SHOWN, os.path.dirname(order['arguments'][0])):
        if os.path.lexists(path):
            _show(path, root)
    _show(_OWN, root, order['own'])
    _show(f'{_OWN}/run', root, order['runtime'], read_only=False)
    _mount(None, root, _MS_BIND | _MS_REMOUNT | _MS_NOSUID | _MS_RDONLY)
    os.chroot(root)
    os.chdir(_OWN)


def hand_on(descriptors: list[int]) -> None:
    """Move descriptors to the places where the program expects them, and
    close all others."""
    end = _FIRST + len(descriptors)
    above = max([end, *descriptors]) + 1
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, above)
             for descriptor in descriptors]
    for place, descriptor in enumerate(moved, _FIRST):
        os.dup2(descriptor, place)
    os.closerange(end, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def set_limits(order: Order) -> None:
    """:raises OSError: the launcher itself may not have as much."""
    for name, limit, value in (
            ('bytes of a core', resource.RLIMIT_CORE, 0),
            ('bytes of a file', resource.RLIMIT_FSIZE, _FILE_MAX),
            ('open files, raise LimitNOFILE of the launcher, or lower [proxy] '
             'connections or the flavor\'s proxy_connections',
             resource.RLIMIT_NOFILE, order['files']),
            ('threads', resource.RLIMIT_NPROC, order['tasks'])):
        try:
            resource.setrlimit(limit, (value, value))
        except ValueError as error:
            raise OSError(
                errno.EPERM, f'it may not have {value} {name}') from error


def last_capability() -> int:
    with open('/proc/sys/kernel/cap_last_cap', 'rb') as file:
        return int(file.read())


def give_up_rights(number: int, capabilities: int) -> None:
    for capability in range(capabilities + 1):
        _call('prctl', _PR_CAPBSET_DROP, capability, 0, 0, 0)
    _call('prctl', _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
    # The inheritable ones are still there.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _call('capset', header, (ctypes.c_uint32 * 6)())
    _call('prctl', _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def main() -> int:
    line = sys.stdin.buffer.readline()
    if not line.endswith(b'\n'):
        return 1
    order: Order = json.loads(line)
    _call('setns', os.open(order['namespace'], os.O_RDONLY), _CLONE_NEWNET)
    # There is no /proc in the view.
    capabilities = last_capability()
    enter_view(order)
    os.dup2(os.open('/dev/null', os.O_RDONLY), 0)
    hand_on(order['descriptors'])
    set_limits(order)
    os.umask(0o007)
    give_up_rights(order['number'], capabilities)
    os.execve(order['arguments'][0], order['arguments'],
              {'PATH': '/usr/sbin:/usr/bin', **order['environment']})


if __name__ == '__main__':
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f'octavia-xdp-proxy-launcher: cannot become HAProxy: {error}')
