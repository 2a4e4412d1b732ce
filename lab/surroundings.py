# SPDX-License-Identifier: Apache-2.0
"""What a lab needs of its machine, looked at before anything is started."""

import os
import shutil
import stat

from lab import paths
from lab import processes

# Of every lab; Debian's packages are in bindep.txt.
PROGRAMS = ('bird', 'birdc', 'bpftool', 'curl', 'ip', 'mariadbd', 'mount',
            'nginx', 'nsenter', 'sysctl', 'tcpdump', 'unshare')
# What a lab writes: databases and logs; what is served and moved.
DISK_MIB, RUN_MIB = 1024, 128
# In namespaces of its own, so that nothing of it stays.
_TRIAL = ('unshare', '--net', '--mount', 'mount', '-t', 'bpf', 'bpf')


def check(lab, programs=(), files=None):
    """Look at all of it.

    :param programs: beside those of every lab.
    :param files: path → the command that makes it, beside those of every lab.
    :raises paths.LabError: it names everything that is missing.
    """
    if os.geteuid() != 0:
        raise paths.LabError('network namespaces and BPF need root')
    built = {paths.LIBRARY: 'tools/setup datapath',
             paths.HEALTH_CHECKER: 'tools/setup checker', **(files or {})}
    problems = [*_programs((*PROGRAMS, *programs)), *_files(built),
                *_directories(lab.run_directory.parent),
                *_space(lab.directory, DISK_MIB),
                *_space(lab.run_directory, RUN_MIB)]
    # Without its programs it would only say that they are missing.
    problems = problems or list(_kernel())
    if problems:
        raise paths.LabError('\n'.join(
            ['this machine lacks what the lab needs:', *problems]))


def _programs(names):
    missing = processes.run(None, None, [
        'sh', '-c', 'for name; do command -v "$name" > /dev/null || '
        'echo "$name"; done', 'sh', *names]).stdout.split()
    if missing:
        yield (f'- programs: {", ".join(missing)}; tools/setup installs their '
               'packages')


def _files(built):
    for path, command in built.items():
        if not path.exists():
            yield f'- {path}; {command} makes it'


def _directories(directory):
    """Servers that give up root, as nginx does, have their files there."""
    for one in (directory, *directory.parents):
        mode = stat.S_IMODE(one.stat().st_mode)
        if not mode & stat.S_IXOTH:
            yield (f'- {one} is closed to other users (mode {mode:04o}), so '
                   'that nginx, which gives up root, could not read what it '
                   f'serves; chmod o+x {one} opens it')


def _space(directory, wanted):
    """Of the file system where a directory is, or will be."""
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free // 2**20
    if free < wanted:
        yield f'- {wanted} MiB free below {directory}: there are {free}'


def _kernel():
    done = processes.run(None, None, [*_TRIAL, '/run'], check=False)
    if done.returncode:
        yield ('- rights to make network namespaces and to mount a BPF file '
               f'system; {_TRIAL[0]} said: {done.stderr.strip()}')
