# SPDX-License-Identifier: Apache-2.0
"""Stock nginx as a server of members: it answers with its host's name.

It also serves files, and accepts them by PUT. Its worker gives up root, so
all its files are in the lab's shared directory.
"""

import shutil

from lab import processes

_USER = 'nobody'
_CONFIGURATION = '''\
daemon off;
user {user} nogroup;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    # As "combined" begins, and who a proxy says that the client is.
    log_format forwarded '$remote_addr - $remote_user [$time_local] '
                         '"$request" $status $body_bytes_sent '
                         '"$http_x_forwarded_for"';
    access_log {directory}/access.log forwarded;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    client_max_body_size 0;
    send_timeout 600s;
    # Tests may use persistent connections only rarely.
    keepalive_timeout 600s;
    default_type text/plain;
    add_header Cache-Control no-store;
    server {{
        {listen}
        root {directory}/files;
        dav_methods PUT;
        location = / {{ return 200 "{host}\\n"; }}
        # Any path below it.
        location ^~ /api {{ return 200 "{host}\\n"; }}
        location = /headers {{ return 200 "{headers}"; }}
    }}
}}
'''

# What /headers shows of a request, beside the address that it came from: nginx
# has no variable with all headers.
_HEADERS = ('Host', 'Cookie', 'X-Forwarded-For', 'X-Forwarded-Port',
            'X-Forwarded-Proto', 'X-SSL-Client-Verify')


def _shown(host):
    lines = [f'member: {host}', 'peer: $remote_addr']
    for header in _HEADERS:
        variable = header.lower().replace('-', '_')
        lines.append(f'{header}: $http_{variable}')
    return '\\n'.join(lines) + '\\n'


def name(host):
    """Return the name of a host's nginx in the lab."""
    return f'{host}-nginx'


def files(lab, host):
    """Return the directory of served and uploaded files."""
    return lab.shared_directory(host) / 'files'


def access_log(lab, host):
    """Return the log of requests, lines of which begin with the client."""
    return lab.shared_directory(host) / 'access.log'


def start(lab, host, ports, ready):
    """Start nginx on ports of all addresses of the host.

    :param ready: returns whether it answers.
    """
    directory = lab.shared_directory(host)
    files(lab, host).mkdir()
    # The worker writes uploads.
    shutil.chown(files(lab, host), _USER)
    files(lab, host).chmod(0o755)
    configuration = directory / 'nginx.conf'
    listen = ' '.join(f'listen 0.0.0.0:{port}; listen [::]:{port};'
                      for port in ports)
    configuration.write_text(_CONFIGURATION.format(
        user=_USER, directory=directory, host=host, listen=listen,
        headers=_shown(host)))
    processes.start(
        lab, host, name(host),
        ['nginx', '-p', directory, '-c', configuration, '-e', 'stderr'],
        ready=ready)
