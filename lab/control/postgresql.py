# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL: a second database server for tests.

It refuses to run as root, so it runs as Debian's user, with its data below
the run directory, which every user can enter.
"""

import pathlib
import shutil

from lab import paths
from lab import processes
from lab.control import mariadb
from lab.control import secret

NAME = 'postgresql'
USER = 'postgres'
ADDRESS = '127.0.0.1'
PORT = 5432


def url(lab, database):
    """Return the SQLAlchemy URL of a database."""
    password = secret.password(lab, 'database')
    return (f'postgresql+psycopg2://{USER}:{password}@{ADDRESS}:{PORT}/'
            f'{database}')


def start(lab):
    """Start a server with empty databases, and wait for it.

    A lab's data need not survive a power failure, so it is not synced.
    """
    directory = lab.run_directory / NAME
    directory.mkdir()
    password = directory / 'password'
    password.touch(mode=0o600)
    password.write_text(secret.password(lab, 'database'))
    for path in directory, password:
        shutil.chown(path, USER, USER)
    data = directory / 'data'
    processes.run(lab, paths.CONTROL, [
        *_as_user(), _program('initdb'), '--no-sync', '--no-instructions',
        '--encoding=UTF8', '--locale=C', '--auth=scram-sha-256',
        f'--username={USER}', f'--pwfile={password}', f'--pgdata={data}'])
    processes.start(
        lab, paths.CONTROL, NAME, [
            *_as_user(), _program('postgres'), '-D', data, '-F',
            '-p', PORT, '-c', f'listen_addresses={ADDRESS}',
            '-c', f'unix_socket_directories={directory}',
            '-c', 'max_connections=200', '-c', 'full_page_writes=off',
            '-c', 'synchronous_commit=off'],
        ready=lambda: mariadb.listening(lab, ADDRESS, PORT))


def _as_user():
    return ['setpriv', f'--reuid={USER}', f'--regid={USER}', '--init-groups']


def _program(name):
    """Return the path of a program's newest version, which PATH lacks."""
    versions = sorted(
        pathlib.Path('/usr/lib/postgresql').glob(f'*/bin/{name}'),
        key=lambda path: float(path.parts[-3]))
    if not versions:
        raise paths.LabError(f'PostgreSQL\'s {name} is not installed')
    return versions[-1]
