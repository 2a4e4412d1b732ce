# SPDX-License-Identifier: Apache-2.0
"""An nginx before the pages, as the documentation has it: TLS and users."""

import getpass
import pathlib
import socket
import ssl
import subprocess
import uuid

from lab import paths
from lab import processes
from lab.control import certificates
import testbed

DOCUMENTED = (pathlib.Path(testbed.__file__).parents[1] /
              'doc/source/contributor/testbed/nginx.conf')
USERS = 'alice', 'bob'
PASSWORD = 'correct horse battery'  # noqa: S105
WAIT_S = 60
_MAIN = '''\
daemon off;
# Files of tests are for their user alone.
user {user};
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxied;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
'''


class Certificate:
    """Make a certificate of 127.0.0.1, and the authority that signs it.

    :ivar authority: a file, as are the others.
    """

    def __init__(self, test):
        lab = paths.Lab(f'testbed-pages-{uuid.uuid4().hex[:8]}')
        lab.make_directories()
        test.addCleanup(lab.directory.rmdir)
        test.addCleanup(lab.logs.rmdir)
        test.addCleanup(lab.remove_directories)
        certificates.make(lab)
        self.authority, self.certificate, self.key = (
            str(find(lab)) for find in (
                certificates.authority, certificates.certificate,
                certificates.key))


def proxy(test, url, certificate, folder):
    """Where an nginx speaks TLS for the pages, until the test ends.

    :param url: of the pages.
    :param folder: does not exist yet.
    """
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    users = folder / 'users'
    users.write_text(''.join(f'{name}:{{PLAIN}}{PASSWORD}\n'
                             for name in USERS))
    text = DOCUMENTED.read_text()
    for documented, own in (
            ('192.0.2.1:443', f'127.0.0.1:{port}'),
            ('http://127.0.0.1:8070', url),
            ('/etc/nginx/users', str(users)),
            ('/etc/ssl/certs/manager.pem', certificate.certificate),
            ('/etc/ssl/private/manager.pem', certificate.key)):
        test.assertEqual(1, text.count(documented), documented)
        text = text.replace(documented, own)
    (folder / 'site.conf').write_text(text)
    (folder / 'nginx.conf').write_text(_MAIN.format(
        folder=folder, user=getpass.getuser()))
    server = subprocess.Popen(
        ['setpriv', '--pdeathsig', 'TERM', '--', 'nginx', '-p', folder, '-c',
         folder / 'nginx.conf', '-e', 'stderr'], stdin=subprocess.DEVNULL)
    test.addCleanup(server.wait)
    test.addCleanup(server.terminate)
    _wait(test, server, port, ssl.create_default_context(
        cafile=certificate.authority))
    return f'https://127.0.0.1:{port}'


def _wait(test, server, port, context):
    def answers():
        test.assertIsNone(server.poll(), 'nginx has ended')
        try:
            with socket.create_connection(
                    ('127.0.0.1', port), WAIT_S) as client:
                context.wrap_socket(
                    client, server_hostname='127.0.0.1').close()
        except ConnectionError:
            return False
        return True
    processes.wait_for('nginx that listens', answers, WAIT_S, 0.05)
