# SPDX-License-Identifier: Apache-2.0
"""Nova's API, without hypervisors and servers.

The wizard of octavia-dashboard requests the tenant's servers, to offer them
as members. Without an answer it shows nothing.
"""

from lab import cloud
from lab import namespaces
from lab import paths
from lab import processes
from lab.control import ini
from lab.control import keystone
from lab.control import mariadb
from lab.control import secret
from lab.control import server
from lab.horizon import environment

NAME = 'nova'
PORT = 8774
URL = f'http://{paths.CONTROL_ADDRESS}:{PORT}/v2.1'
# Common to all cells; cell 0, for servers without a hypervisor; and cell 1.
DATABASES = ('nova_api', 'nova_cell0', 'nova')
# Messages are discarded: there is no conductor, scheduler or hypervisor.
_NO_BROKER = 'fake://'


def start(lab):
    """Add Nova to the cloud, create its tables and start its API."""
    secret.make(lab, NAME)
    with namespaces.inside(lab, paths.CONTROL):
        cloud.add_service(lab, NAME, 'compute', URL)
    mariadb.create_more_databases(lab, DATABASES)
    _configure(lab)
    _manage(lab, 'api_db', 'sync')
    _manage(lab, 'cell_v2', 'map_cell0', '--database_connection',
            mariadb.url(lab, 'nova_cell0'))
    _manage(lab, 'db', 'sync')
    _manage(lab, 'cell_v2', 'create_cell', '--name', 'cell1',
            '--database_connection', mariadb.url(lab, 'nova'),
            '--transport-url', _NO_BROKER)
    server.start(lab, NAME, 'nova', PORT, venv=environment.VENV, env={
        'OS_NOVA_CONFIG_DIR': _directory(lab)})


def _configure(lab):
    directory = _directory(lab)
    directory.mkdir(exist_ok=True)
    ini.write(directory / 'nova.conf', {
        'DEFAULT': {'use_stderr': True, 'transport_url': _NO_BROKER,
                    'state_path': directory},
        'api_database': {'connection': mariadb.url(lab, 'nova_api')},
        'database': {'connection': mariadb.url(lab, 'nova')},
        'keystone_authtoken': keystone.token_options(lab, NAME),
        'neutron': keystone.user_options(lab, NAME),
        'placement': keystone.user_options(lab, NAME),
        'oslo_concurrency': {'lock_path': directory},
    })
    paste = environment.VENV / 'etc' / 'nova' / 'api-paste.ini'
    (directory / paste.name).write_text(paste.read_text())


def _directory(lab):
    return lab.host_directory(paths.CONTROL) / NAME


def _manage(lab, *arguments):
    processes.run(lab, paths.CONTROL, [
        environment.program('nova-manage'),
        '--config-dir', _directory(lab), *arguments], timeout=300)
