# SPDX-License-Identifier: Apache-2.0
"""Check the machine's requirements before a lab is started."""

import os
import shutil
import stat

from lab import paths
from lab import processes

# Of every lab; Debian's packages are in bindep.txt.
PROGRAMS = ('bird', 'birdc', 'bpftool', 'curl', 'ip', 'mariadbd', 'mount',
            'nginx', 'nsenter', 'sysctl', 'tcpdump', 'unshare')
# Space for databases and logs, and for files that servers transfer.
DISK_MIB, RUN_MIB = 1024, 128
# It runs in its own namespaces, so that it leaves nothing behind.
_TRIAL = ('unshare', '--net', '--mount', 'mount', '-t', 'bpf', 'bpf')


def check(lab, programs=(), files=None):
    """Check all requirements.

    :param programs: more than those of every lab.
    :param files: path → the command that creates it; more than those of every
        lab.
    :raises paths.LabError: names all missing requirements.
    """
    if os.geteuid() != 0:
        raise paths.LabError('network namespaces and BPF need root')
    built = {paths.LIBRARY: 'tools/setup datapath',
             paths.HEALTH_CHECKER: 'tools/setup checker', **(files or {})}
    problems = [*_programs((*PROGRAMS, *programs)), *_files(built),
                *_directories(lab.run_directory.parent),
                *_space(lab.directory, DISK_MIB),
                *_space(lab.run_directory, RUN_MIB)]
    # This needs the programs.
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
            yield f'- {path}; {command} creates it'


def _directories(directory):
    # Servers that give up root, like nginx, have their files there.
    for level in (directory, *directory.parents):
        mode = stat.S_IMODE(level.stat().st_mode)
        if not mode & stat.S_IXOTH:
            yield (f'- {level} is closed to other users (mode {mode:04o}), so '
                   'that nginx, which gives up root, could not read the files '
                   f'it serves; chmod o+x {level} opens it')


def _space(directory, required_mib):
    # The directory may not exist yet.
    while not directory.exists():
        directory = directory.parent
    free_mib = shutil.disk_usage(directory).free // 2**20
    if free_mib < required_mib:
        yield (f'- {required_mib} MiB free below {directory}: there are '
               f'{free_mib}')


def _kernel():
    done = processes.run(None, None, [*_TRIAL, '/run'], check=False)
    if done.returncode:
        yield ('- rights to create network namespaces and to mount a BPF file '
               f'system; {_TRIAL[0]} printed: {done.stderr.strip()}')
