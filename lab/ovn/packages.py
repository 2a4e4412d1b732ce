# SPDX-License-Identifier: Apache-2.0
"""Debian's Open vSwitch and OVN, unpacked instead of installed.

The installed packages would start servers and change the machine's network.
apt downloads and verifies them from the machine's mirror. They are unpacked
below build/ovn/, and programs find their files by environment variables.
"""

import fcntl
import functools
import os
import pathlib
import shutil

from lab import paths
from lab import processes

PACKAGES = ('openvswitch-common', 'openvswitch-switch', 'ovn-central',
            'ovn-common', 'ovn-host')
DIRECTORY = paths.BUILD / 'ovn'
_LIBRARY = 'lib'
_TIMEOUT_S = 600


def provide(lab):
    """Download and unpack the packages, if they are missing.

    To get newer ones, remove build/ovn/. ``python -m lab.ovn.packages`` does
    this without a lab, for tests in guests, which have no network.

    :param lab: None without a lab.
    """
    paths.BUILD.mkdir(exist_ok=True)
    with open(DIRECTORY.with_suffix('.lock'), 'w') as lock:
        # Of labs that start at the same time one downloads, the others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if DIRECTORY.is_dir():
            return
        new = DIRECTORY.with_suffix('.new')
        shutil.rmtree(new, ignore_errors=True)
        archives = new / 'archives'
        archives.mkdir(parents=True)
        _apt(lab, ['apt-get', 'download', *_wanted(lab)], archives)
        for archive in archives.iterdir():
            processes.run(lab, None, ['dpkg-deb', '--extract', archive, new])
        shutil.rmtree(archives)
        new.rename(DIRECTORY)


@functools.cache
def program(name):
    """Return the path of a program.

    Some are in a directory that only update-alternatives links to.
    """
    return _only(name, DIRECTORY / 'usr' / 'sbin', DIRECTORY / 'usr' / 'bin',
                 DIRECTORY / 'usr' / 'lib' / 'openvswitch-switch')


@functools.cache
def schema(name):
    """Return the path of a database's schema, as vswitch.ovsschema."""
    share = DIRECTORY / 'usr' / 'share'
    return _only(name, share / 'openvswitch', share / 'ovn')


def search_paths():
    """Return variables with which other programs find these."""
    return {
        'PATH': os.pathsep.join((
            str(DIRECTORY / 'usr' / 'bin'), '/usr/sbin', '/usr/bin', '/sbin',
            '/bin')),
        'LD_LIBRARY_PATH': os.pathsep.join(
            str(path) for path in (DIRECTORY / 'usr' / 'lib').glob(
                '*-linux-*')),
    }


def environment(directory, run_directory):
    """Return variables with which the programs of a host run.

    :param directory: for the host's persistent files.
    :param run_directory: for its sockets.
    """
    share = DIRECTORY / 'usr' / 'share'
    return {
        **search_paths(),
        'OVS_PKGDATADIR': share / 'openvswitch',
        'OVN_PKGDATADIR': share / 'ovn',
        'OVS_SYSCONFDIR': directory,
        'OVN_SYSCONFDIR': directory,
        'OVS_DBDIR': directory,
        'OVN_DBDIR': directory,
        'OVS_LOGDIR': directory,
        'OVN_LOGDIR': directory,
        'OVS_RUNDIR': run_directory,
        'OVN_RUNDIR': run_directory,
    }


def _wanted(lab):
    """Return the packages, and their libraries that the machine lacks."""
    simulated = _apt(lab, ['apt-get', '--simulate', '--no-install-recommends',
                           'install', *PACKAGES])
    missing = [line.split()[1] for line in simulated.splitlines()
               if line.startswith('Inst ')]
    return sorted({*PACKAGES, *(name for name in missing
                                if name.startswith(_LIBRARY))})


def _apt(lab, argv, directory=None):
    """Run a command of apt; if it fails, update its lists and retry."""
    done = processes.run(lab, None, argv, cwd=directory, check=False,
                         timeout=_TIMEOUT_S)
    if done.returncode:
        processes.run(lab, None, ['apt-get', 'update'], timeout=_TIMEOUT_S)
        done = processes.run(lab, None, argv, cwd=directory,
                             timeout=_TIMEOUT_S)
    return done.stdout


def _only(name, *directories):
    for directory in directories:
        path = pathlib.Path(directory) / name
        if path.exists():
            return path
    raise paths.LabError(f'Debian\'s packages {", ".join(PACKAGES)} have no '
                         f'{name}; they are unpacked in {DIRECTORY}')


if __name__ == '__main__':
    provide(None)
