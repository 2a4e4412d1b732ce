# SPDX-License-Identifier: Apache-2.0
"""Namespaces of the test process's own: nothing is left behind.

Needs root, a BPF file system and veth devices; no network.
"""

import ctypes
import functools
import os
import pathlib
import subprocess
import tempfile
import unittest

from octavia_xdp_provider.tests.packets.support import library

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
LOOPBACK = 1
# For tests that repeat one thing so often that an emulated processor would
# take minutes for it.
takes_long = unittest.skipIf(
    os.environ.get('OCTAVIA_XDP_PACKETS') == 'quick', 'takes long')
OTHER_UPLINKS = ('uplink1', 'uplink2')


def _command(*words: str):
    subprocess.run(words, check=True, capture_output=True)


@functools.cache
def enter() -> dict[str, int]:
    """Move the process into its namespaces, once.

    Returns the ifindex of devices by name: the loopback device is where
    frames come in, the others are there for what is redirected.
    """
    if os.geteuid() != 0:
        raise unittest.SkipTest('needs root')
    if not os.path.exists(library.path()):
        raise unittest.SkipTest('the library is not built')
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, 'unshare: ' + os.strerror(number))
    _command('mount', '--make-rprivate', '/')
    # Removed by the kernel with the namespace, however the process ends.
    _command('mount', '-t', 'tmpfs', 'tmpfs', '/mnt')
    _command('ip', 'link', 'set', 'lo', 'up')
    for name in OTHER_UPLINKS:
        _command('ip', 'link', 'add', name, 'type', 'veth', 'peer', 'name',
                 name + 'p')
        for end in (name, name + 'p'):
            _command('ip', 'link', 'set', end, 'up')
    # So that this one sends frames of several buffers, and the other not.
    _command('ethtool', '-K', OTHER_UPLINKS[1] + 'p', 'gro', 'on')
    indices = {'lo': LOOPBACK}
    for line in subprocess.run(('ip', '-o', 'link'), check=True, text=True,
                               capture_output=True).stdout.splitlines():
        index, name = line.split(':')[:2]
        indices[name.strip().split('@')[0]] = int(index)
    # Counters, budgets and caches per CPU: one CPU, so that they are exact.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return indices


def set_mtu(name: str, mtu: int):
    """Set the MTU of a device that enter() has made."""
    _command('ip', 'link', 'set', name, 'mtu', str(mtu))


def bpf_filesystem() -> tuple[pathlib.Path, pathlib.Path]:
    """(directory on a new BPF file system, lock file)"""
    enter()
    root = pathlib.Path(tempfile.mkdtemp(dir='/mnt'))
    (root / 'bpf').mkdir()
    _command('mount', '-t', 'bpf', 'bpf', str(root / 'bpf'))
    return root / 'bpf' / 'node', root / 'lock'


def drop_filesystem(directory: pathlib.Path):
    _command('umount', '-l', str(directory.parent))
