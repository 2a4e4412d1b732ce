# SPDX-License-Identifier: Apache-2.0
"""Prepares the separate namespaces of probers and the result handler."""

import contextlib
import pathlib
import resource
import subprocess
import tempfile

# Values that operators would set for this many connections a second.
_SYSCTLS = {
    'net/core/somaxconn': '65535',
    'net/ipv4/ip_local_port_range': '1024 65535',
    'net/ipv4/tcp_max_syn_backlog': '65535',
    'net/ipv4/tcp_tw_reuse': '1',
}


def prepare():
    """Configure this network namespace, which must not be the machine's."""
    for name, value in _SYSCTLS.items():
        pathlib.Path('/proc/sys', name).write_text(value + '\n')
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def mounted(kind):
    """Mount a new file system of this kind on a temporary directory."""
    with tempfile.TemporaryDirectory(prefix='octavia-xdp-bench-') as path:
        subprocess.run(['mount', '-t', kind, kind, path], check=True)
        try:
            yield pathlib.Path(path)
        finally:
            subprocess.run(['umount', '-l', path], check=True)
