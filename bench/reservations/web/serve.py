# SPDX-License-Identifier: Apache-2.0
"""The pages, by gunicorn."""

from collections.abc import Mapping
import ipaddress
import ssl
from typing import Any

from gunicorn.app import base

from bench import errors
from bench.reservations import folder as folders
from bench.reservations.web import app

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


def run(folder: folders.Folder, listen: str, *, proxy: bool = False,
        header: str | None = None, certificate: str | None = None,
        key: str | None = None) -> None:
    """Serve until a signal.

    :param listen: ADDRESS:PORT or unix:PATH. With the port 0 the kernel
        chooses one, which the log has.
    :raises errors.BenchError: what is asked would send passwords in the
        clear, or let anybody be anyone; or the certificate is none.
    """
    check(listen, proxy, header, certificate, key)
    if certificate and key:
        check_certificate(certificate, key)
    https = proxy or certificate is not None
    # Errors of the folder are shown here, not in each worker's log.
    app.create(folder, https, proxy, header)
    settings = {'bind': listen, 'workers': WORKERS, 'timeout': TIMEOUT_S,
                'accesslog': '-', 'proc_name': 'octavia-xdp-bench',
                'forwarded_allow_ips': '', 'certfile': certificate,
                'keyfile': key, 'umask': 0o077}
    _Server(settings, lambda: app.create(folder, https, proxy, header)).run()


def check(listen: str, proxy: bool, header: str | None,
          certificate: str | None, key: str | None) -> None:
    """:raises errors.BenchError: see run."""
    if bool(certificate) != bool(key):
        raise errors.BenchError('--certificate and --key belong together')
    if certificate and proxy:
        raise errors.BenchError(
            '--behind-proxy has TLS end at the proxy, --certificate here: '
            'one of the two')
    if header and not proxy:
        raise errors.BenchError(
            '--trusted-header needs --behind-proxy: without one anybody '
            'could send the header')
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
    if proxy and not loopback:
        raise errors.BenchError(
            f'--behind-proxy and {host}: who reaches that address goes '
            'around the proxy; listen at 127.0.0.1 or unix:PATH')
    if not loopback and certificate is None:
        raise errors.BenchError(
            f'passwords would cross the network to {host} in the clear: give '
            '--certificate and --key, or listen at 127.0.0.1 behind a proxy')


def check_certificate(certificate: str, key: str) -> None:
    """:raises errors.BenchError: they cannot be read, or do not fit."""
    try:
        # A password could be asked for by nobody later on.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            certificate, key, password='')
    except OSError as error:  # SSLError is one.
        raise errors.BenchError(
            f'no certificate with its key: {certificate}, {key}: '
            f'{error.strerror}; both have to be PEM, the key without a '
            'password') from None
