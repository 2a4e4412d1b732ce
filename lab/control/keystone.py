# SPDX-License-Identifier: Apache-2.0
"""Keystone, with settings for speed that suit tests only."""

from cryptography import fernet

from lab import paths
from lab import processes
from lab.control import ini
from lab.control import mariadb
from lab.control import secret
from lab.control import server

NAME = 'keystone'
PORT = 5000
URL = f'http://{paths.CONTROL_ADDRESS}:{PORT}/v3'
REGION = 'RegionOne'
# The user with which the provider's controller calls Octavia, and its role.
OBSERVER = 'octavia-xdp'
OBSERVER_ROLE = 'load-balancer_global_observer'
# Folders of keys for tokens and for credentials.
KEYS = ('fernet-keys', 'credential-keys')


def configure(lab):
    """Write keystone.conf."""
    directory = _directory(lab)
    directory.mkdir(exist_ok=True)
    ini.write(directory / 'keystone.conf', {
        'DEFAULT': {'use_stderr': True},
        'database': {'connection': mariadb.url(lab, 'keystone')},
        'identity': {'password_hash_rounds': 4},
        'cache': {'enabled': True, 'backend': 'dogpile.cache.memory'},
        'token': {'expiration': 86400},
        'fernet_tokens': {'key_repository': directory / KEYS[0]},
        # The default is below /etc, where a lab writes nothing.
        'fernet_receipts': {'key_repository': directory / KEYS[0]},
        'credential': {'key_repository': directory / KEYS[1]},
    })


def make_keys(lab):
    """Create the keys that sign tokens and encrypt credentials.

    They are those that keystone-manage creates, which takes seconds to start:
    the next key (0) and the one in use (1).
    """
    for folder in KEYS:
        (_directory(lab) / folder).mkdir(mode=0o700)
        for number in 0, 1:
            path = _directory(lab) / folder / str(number)
            path.touch(mode=0o600)
            path.write_bytes(fernet.Fernet.generate_key())


def migrate(lab):
    """Create the tables, the admin user, and Keystone's own endpoint."""
    _manage(lab, 'db_sync')
    _manage(lab, 'bootstrap',
            '--bootstrap-password', secret.password(lab, 'admin'),
            '--bootstrap-region-id', REGION,
            '--bootstrap-public-url', URL,
            '--bootstrap-internal-url', URL)


def start(lab):
    """Start the API server."""
    server.start(lab, NAME, 'keystone', PORT,
                 env={'OS_KEYSTONE_CONFIG_DIR': _directory(lab)})


def user_options(lab, user):
    """Return options with which another service authenticates as a user."""
    return {
        'auth_type': 'password',
        'auth_url': URL,
        'username': user,
        'password': secret.password(lab, user),
        'user_domain_name': 'Default',
        'project_name': 'service',
        'project_domain_name': 'Default',
        'region_name': REGION,
    }


def token_options(lab, user):
    """Return the [keystone_authtoken] section of another service."""
    return {
        **user_options(lab, user),
        'www_authenticate_uri': URL,
        'service_token_roles': 'service',
        'service_token_roles_required': True,
    }


def _directory(lab):
    return lab.host_directory(paths.CONTROL) / NAME


def _manage(lab, *arguments):
    processes.run(lab, paths.CONTROL, [
        paths.VENV / 'bin' / 'keystone-manage',
        '--config-file', _directory(lab) / 'keystone.conf', *arguments])
