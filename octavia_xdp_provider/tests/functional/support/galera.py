# SPDX-License-Identifier: Apache-2.0
"""A cluster of two MariaDB servers that replicate by Galera.

On a loopback address of its own for each run, in a directory that is removed.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess

import sqlalchemy as sa

from lab import processes

# From Debian's galera-4, on which its mariadb-server depends.
PROVIDER = pathlib.Path('/usr/lib/galera/libgalera_smm.so')
DATABASE = 'xdp_test'
START_S = 60


class Cluster:
    """Two servers of one database; `urls` are SQLAlchemy's."""

    def __init__(self, directory):
        self._directory = pathlib.Path(directory)
        # Two runs on one machine do not meet.
        self._address = f'127.{os.getpid() % 250 + 1}.77.1'
        self._servers = []
        self.urls = []

    def start(self):
        """Make the database, then start both servers on copies of it.

        The second one lacks no more than the first one's start.
        """
        first = self._directory / '1'
        subprocess.run(
            ['mariadb-install-db', '--no-defaults', '--user=root',
             '--auth-root-authentication-method=normal', '--skip-test-db',
             '--innodb-log-file-size=8M', f'--datadir={first}'],
            env=self._environment(1), check=True, capture_output=True)
        self._launch(1, bootstrap=True)
        self._wait_synced(1, 1)
        with self._engine(1, '').connect() as connection:
            connection.execute(sa.text(f'CREATE DATABASE {DATABASE}'))
        self.stop()
        shutil.copytree(first, self._directory / '2')
        # Missing data comes through rsync's daemon, which is not root.
        self._directory.chmod(0o711)
        (self._directory / '2').chmod(0o777)
        self._launch(1, bootstrap=True)
        self._wait_synced(1, 1)
        self._launch(2)
        for number in (1, 2):
            self._wait_synced(number, 2)
        self.urls = [self._url(number, DATABASE) for number in (1, 2)]

    def stop(self):
        """End the servers orderly, the second one first."""
        for server in reversed(self._servers):
            server.terminate()
            server.wait(30)
        self._servers = []

    @contextlib.contextmanager
    def lagging(self, number):
        """A server applies nothing of the other one's during a `with` block.
        """
        with self._engine(number, DATABASE).connect() as connection:
            connection.execute(sa.text('FLUSH TABLES WITH READ LOCK'))
            try:
                yield
            finally:
                connection.execute(sa.text('UNLOCK TABLES'))

    def _environment(self, number):
        # A server that starts removes what looks like its temporary tables,
        # also another server's in the same directory.
        directory = self._directory / f'{number}.tmp'
        directory.mkdir(exist_ok=True)
        return {**os.environ, 'TMPDIR': str(directory)}

    def _port(self, number):
        return 3306 + number

    def _url(self, number, database):
        return (f'mysql+pymysql://root@{self._address}:{self._port(number)}/'
                f'{database}?charset=utf8mb4')

    def _engine(self, number, database):
        return sa.create_engine(self._url(number, database),
                                poolclass=sa.pool.NullPool,
                                isolation_level='AUTOCOMMIT')

    def _launch(self, number, bootstrap=False):
        base = 4500 + 10 * number
        others = '' if bootstrap else f'{self._address}:{4510}'
        data = self._directory / str(number)
        with open(self._directory / f'{number}.log', 'ab') as log:
            self._servers.append(subprocess.Popen([
                'mariadbd', '--no-defaults', '--user=root',
                f'--datadir={data}', f'--socket={data}.sock',
                f'--pid-file={data}.pid', f'--bind-address={self._address}',
                f'--port={self._port(number)}', '--skip-name-resolve',
                '--performance-schema=OFF', '--innodb-log-file-size=8M',
                '--innodb-buffer-pool-size=32M',
                '--innodb-flush-log-at-trx-commit=0',
                '--innodb-doublewrite=OFF', '--binlog-format=ROW',
                '--innodb-autoinc-lock-mode=2', '--wsrep-on=ON',
                f'--wsrep-provider={PROVIDER}',
                f'--wsrep-cluster-address=gcomm://{others}',
                f'--wsrep-node-address={self._address}:{base}',
                '--wsrep-sst-method=rsync',
                '--wsrep-provider-options='
                f'base_host={self._address};base_port={base};'
                f'gmcast.listen_addr=tcp://{self._address}:{base};'
                f'ist.recv_addr={self._address}:{base + 1};'
                'gcache.size=8M;gcache.page_size=8M'],
                env=self._environment(number), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log))

    def _wait_synced(self, number, size):
        def log():
            path = self._directory / f'{number}.log'
            return path.read_text(errors='replace')[-6000:]

        def synced_or_dead():
            return (self._servers[-1].poll() is not None
                    or self._is_synced(number, size))
        processes.wait_for(lambda: f'cluster of {size}:\n{log()}',
                           synced_or_dead, START_S)
        if self._servers[-1].poll() is not None:
            raise RuntimeError(f'a server has ended:\n{log()}')

    def _is_synced(self, number, size):
        try:
            socket.create_connection(
                (self._address, self._port(number)), 1).close()
            with self._engine(number, '').connect() as connection:
                variables = dict(connection.execute(sa.text(
                    "SHOW STATUS WHERE Variable_name IN "
                    "('wsrep_ready', 'wsrep_cluster_size')")).all())
        except (OSError, sa.exc.DBAPIError):
            return False
        return variables == {'wsrep_ready': 'ON',
                             'wsrep_cluster_size': str(size)}
