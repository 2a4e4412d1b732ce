# SPDX-License-Identifier: Apache-2.0
"""Horizon with Octavia's dashboard and this provider's plugin."""

import socket

from lab import cloud
from lab import paths
from lab import processes
from lab.control import keystone
from lab.control import secret
from lab.control import server
from lab.horizon import environment
from lab.horizon import nova

NAME = 'horizon'
PORT = 8000
URL = f'http://{paths.CONTROL_ADDRESS}:{PORT}'
_LOOPBACK = '127.0.0.1'


def start(lab):
    """Start Nova's API and Horizon in a running lab.

    :returns: the URL for browsers outside the lab, with user and password.
    """
    environment.program('gunicorn')
    nova.start(lab)
    secret.make(lab, NAME)
    server.start(lab, NAME, 'horizon', PORT, venv=environment.VENV, env={
        'LAB_KEYSTONE_URL': keystone.URL,
        'LAB_SECRET_KEY': secret.password(lab, NAME)}, also=(_socket(lab),))
    return (f'{_forward(lab)}   user {cloud.TENANT}   password '
            f'{secret.password(lab, cloud.TENANT)}')


def _forward(lab):
    """Forward a port of the machine to Horizon, and return the URL.

    The forwarder uses a UNIX socket, which network namespaces do not isolate.
    """
    with socket.create_server((_LOOPBACK, 0)) as server_socket:
        port = server_socket.getsockname()[1]
    processes.start(lab, None, f'{NAME}-forward', [
        'socat', f'TCP-LISTEN:{port},bind={_LOOPBACK},reuseaddr,fork',
        f'UNIX-CONNECT:{_socket(lab)}'])
    return f'http://{_LOOPBACK}:{port}/'


def _socket(lab):
    return lab.run_directory / 'horizon.sock'
