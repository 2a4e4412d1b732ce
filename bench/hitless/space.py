# SPDX-License-Identifier: Apache-2.0
"""Namespaces of networks, mounts and processes that end with the benchmark.

The lab's namespaces have names in /run, which is a file system of our own
here: however we end, the kernel removes all of it.
"""

import os
import pathlib
import subprocess
import sys

from lab import paths

_INSIDE = 'OCTAVIA_XDP_HITLESS_INSIDE'


def enter(module, arguments):
    """Start the module again in namespaces of its own, if it is not there."""
    if os.environ.get(_INSIDE):
        _prepare()
        return
    if os.geteuid() != 0:
        sys.exit('This needs root: namespaces, XDP and the bpffs.')
    paths.BUILD.joinpath('lab').mkdir(parents=True, exist_ok=True)
    os.execvpe('unshare', [
        'unshare', '--net', '--mount', '--propagation', 'private', '--pid',
        '--fork', '--kill-child', '--mount-proc',
        sys.executable, '-m', module, *arguments],
        {**os.environ, _INSIDE: '1'})


def _prepare():
    for place in (pathlib.Path('/run'), paths.BUILD / 'lab'):
        subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', place], check=True)
