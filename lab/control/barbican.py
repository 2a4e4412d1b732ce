# SPDX-License-Identifier: Apache-2.0
"""Barbican, in which tenants store the certificates of their listeners."""

import base64
import secrets

from lab import cloud
from lab import namespaces
from lab import paths
from lab import processes
from lab.control import ini
from lab.control import keystone
from lab.control import mariadb
from lab.control import server

NAME = 'barbican'
PORT = 9311
URL = f'http://{paths.CONTROL_ADDRESS}:{PORT}'
# Options with which Octavia reads certificates from here.
OCTAVIA_OPTIONS = {'cert_manager': 'barbican_cert_manager',
                   'region_name': keystone.REGION}


def configure(lab):
    """Write barbican.conf."""
    directory = _directory(lab)
    directory.mkdir(exist_ok=True)
    ini.write(directory / 'barbican.conf', {
        'DEFAULT': {'use_stderr': True, 'host_href': URL},
        'database': {'connection': mariadb.url(lab, NAME)},
        'keystone_authtoken': keystone.token_options(lab, NAME),
        'secretstore': {'enabled_secretstore_plugins': 'store_crypto'},
        'crypto': {'enabled_crypto_plugins': 'simple_crypto'},
        # It encrypts the keys of projects, which encrypt their secrets.
        'simple_crypto_plugin': {
            'kek': base64.b64encode(secrets.token_bytes(32)).decode()},
    })


def migrate(lab):
    """Create the tables."""
    processes.run(lab, paths.CONTROL, [
        paths.VENV / 'bin' / 'barbican-db-manage', 'upgrade'],
        env=_environment(lab))


def start(lab):
    """Start the API server."""
    server.start(lab, NAME, 'barbican', PORT, env=_environment(lab))


def register(lab):
    """Add Barbican and its user to the cloud."""
    with namespaces.inside(lab, paths.CONTROL):
        cloud.add_service(lab, NAME, 'key-manager', URL)


def _environment(lab):
    # Its plug-ins read barbican.conf in the home directory or below /etc,
    # whatever the command line says.
    return {'HOME': _directory(lab)}


def _directory(lab):
    return lab.host_directory(paths.CONTROL) / NAME
