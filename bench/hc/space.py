# SPDX-License-Identifier: Apache-2.0
"""A network and mount namespace of our own, gone when we are."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

_INSIDE = 'OCTAVIA_XDP_BENCH_INSIDE'
# As an operator would set them for so many connections a second.
_SYSCTLS = {
    'net/core/somaxconn': '65535',
    'net/ipv4/ip_local_port_range': '1024 65535',
    'net/ipv4/tcp_max_syn_backlog': '65535',
    'net/ipv4/tcp_tw_reuse': '1',
}


def enter(module, arguments):
    """Start the module again in namespaces of its own, if it is not there.

    They have no name, so nothing is left behind however we end.
    """
    if os.environ.get(_INSIDE):
        _prepare()
        return
    if os.geteuid() != 0:
        sys.exit('The benchmarks need root: namespaces and the bpffs.')
    os.execvpe('unshare', [
        'unshare', '--net', '--mount', '--propagation', 'private',
        sys.executable, '-m', module, *arguments],
        {**os.environ, _INSIDE: '1'})


def _prepare():
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    for name, value in _SYSCTLS.items():
        pathlib.Path('/proc/sys', name).write_text(value + '\n')


@contextlib.contextmanager
def mounted(kind):
    """A directory with a file system of its own of this kind."""
    with tempfile.TemporaryDirectory(prefix='octavia-xdp-bench-') as path:
        subprocess.run(['mount', '-t', kind, kind, path], check=True)
        try:
            yield pathlib.Path(path)
        finally:
            subprocess.run(['umount', '-l', path], check=True)
