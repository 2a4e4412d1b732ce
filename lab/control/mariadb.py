# SPDX-License-Identifier: Apache-2.0
"""MariaDB, for Keystone, Neutron, Octavia, Barbican and the controllers."""

import socket

from lab import namespaces
from lab import paths
from lab import processes
from lab.control import certificates
from lab.control import secret

NAME = 'mariadb'
ADDRESS = '127.0.0.1'
PORT = 3306
CONTROLLERS = 'octavia_xdp'
DATABASES = ('keystone', 'neutron', 'octavia', 'barbican', CONTROLLERS)


def data_directory(lab):
    """Return the directory of the databases' files."""
    return lab.host_directory(paths.CONTROL) / 'mariadb'


def _temporary(lab):
    """Return variables with a directory for this server's temporary files.

    At its start a server removes temporary tables in that directory, even
    those of another lab's server if both use the same directory.
    """
    directory = lab.host_directory(paths.CONTROL) / 'mariadb-tmp'
    directory.mkdir(parents=True, exist_ok=True)
    return {'TMPDIR': str(directory)}


def url(lab, database):
    """Return the SQLAlchemy URL of a database."""
    password = secret.password(lab, 'database')
    return (f'mysql+pymysql://lab:{password}@{ADDRESS}:{PORT}/{database}'
            '?charset=utf8mb4')


def initialise(lab):
    """Create an empty data directory."""
    processes.run(lab, paths.CONTROL, [
        'mariadb-install-db', '--no-defaults', '--user=root',
        '--auth-root-authentication-method=socket', '--skip-test-db',
        '--innodb-log-file-size=24M', f'--datadir={data_directory(lab)}'],
        env=_temporary(lab))


def create_databases(lab):
    """Create the databases and the user that owns them."""
    _execute(lab, *map(_creation, DATABASES))
    create_user(lab, DATABASES)


def create_more_databases(lab, databases):
    """Create databases of further services, for the same user."""
    _execute(lab, *map(_creation, databases), *map(_grant, databases))


def create_user(lab, databases):
    """Create the user that owns the databases of these names or patterns."""
    password = secret.password(lab, 'database')
    _execute(lab,
             f"CREATE USER 'lab'@'{ADDRESS}' IDENTIFIED BY '{password}'",
             *map(_grant, databases))


def _creation(database):
    return (f'CREATE DATABASE {database} CHARACTER SET utf8mb4 '
            'COLLATE utf8mb4_general_ci')


def _grant(database):
    return f"GRANT ALL ON `{database}`.* TO 'lab'@'{ADDRESS}'"


def _execute(lab, *statements):
    processes.run(
        lab, paths.CONTROL,
        ['mariadb', '--no-defaults', f'--socket={_socket(lab)}'],
        input=''.join(f'{statement};\n' for statement in statements))


def start(lab):
    """Start the server on an existing data directory.

    A lab's data need not survive a power failure, so it is not synced.
    """
    processes.start(lab, paths.CONTROL, NAME, [
        'mariadbd', '--no-defaults', '--user=root',
        f'--datadir={data_directory(lab)}', f'--socket={_socket(lab)}',
        f'--pid-file={lab.run_directory}/mariadb.pid',
        f'--bind-address={ADDRESS}', f'--port={PORT}',
        f'--ssl-ca={certificates.authority(lab)}',
        f'--ssl-cert={certificates.certificate(lab)}',
        f'--ssl-key={certificates.key(lab)}',
        '--skip-name-resolve', '--max-connections=400',
        '--performance-schema=OFF', '--innodb-log-file-size=24M',
        # Octavia does not retry transactions that this refuses (install
        # guide). Older servers do not have the option.
        '--loose-innodb-snapshot-isolation=OFF',
        '--innodb-flush-log-at-trx-commit=0', '--innodb-doublewrite=OFF',
        '--innodb-buffer-pool-size=128M'], env=_temporary(lab),
        ready=lambda: listening(lab, ADDRESS, PORT))


def stop(lab):
    """Stop the server cleanly."""
    processes.stop(lab, NAME, timeout=60)


def listening(lab, address, port):
    """Return whether a server on the control host accepts connections."""
    with namespaces.inside(lab, paths.CONTROL):
        try:
            socket.create_connection((address, port), 1).close()
        except OSError:
            return False
    return True


def _socket(lab):
    return lab.run_directory / 'mariadb.sock'
