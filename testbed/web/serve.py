# SPDX-License-Identifier: Apache-2.0
"""Serves the pages with gunicorn."""

from collections.abc import Mapping
import ipaddress
import secrets
from typing import Any

from gunicorn.app import base

from bench import errors
from testbed import folder as folders
from testbed.web import app

WORKERS = 2
TIMEOUT_S = 120


class _Server(base.BaseApplication):
    def __init__(self, settings: Mapping[str, Any], make):
        self._settings, self._make = settings, make
        super().__init__()

    def load_config(self):
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self):
        return self._make()


def run(folder: folders.Folder, listen: str, header: str) -> None:
    """Serve until a signal.

    :param listen: ADDRESS:PORT or unix:PATH. With port 0, the kernel chooses
        one, which is logged.
    :param header: header in which the reverse proxy passes the user's name.
    :raises errors.BenchError: clients could bypass the proxy.
    """
    check(listen)
    # Shared by all workers and lost with them, since it signs nothing that has
    # to last.
    key = secrets.token_hex(32)
    # Reports errors of the folder here instead of in each worker's log.
    app.create(folder, key, header)
    settings = {'bind': listen, 'workers': WORKERS, 'timeout': TIMEOUT_S,
                'accesslog': '-', 'proc_name': 'octavia-xdp-testbed',
                'forwarded_allow_ips': '', 'umask': 0o077}
    _Server(settings, lambda: app.create(folder, key, header)).run()


def check(listen: str) -> None:
    """:raises errors.BenchError: see run()."""
    if listen.startswith('unix:'):
        return
    host, _, port = listen.rpartition(':')
    try:
        loopback = ipaddress.ip_address(host.strip('[]')).is_loopback
        if not 0 <= int(port) <= 65535:
            raise ValueError(port)
    except ValueError:
        raise errors.BenchError(
            f'--listen {listen!r}: ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH '
            'are taken') from None
    if not loopback:
        raise errors.BenchError(
            f'--listen {listen}: who reaches that address goes around the '
            'proxy, which says who they are; listen at 127.0.0.1 or '
            'unix:PATH, and let the proxy speak TLS')
