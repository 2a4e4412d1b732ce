# SPDX-License-Identifier: Apache-2.0
"""Creating and upgrading the controller's database."""

import os

from alembic import command
from alembic import config as alembic_config
from alembic import migration
from alembic import script
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import enginefacade
from oslo_log import log as logging
import sqlalchemy as sa

from octavia_xdp_provider.common import option_values
from octavia_xdp_provider.controller.store import pool
from octavia_xdp_provider.controller.store import sqlite

LOG = logging.getLogger(__name__)

# Of MariaDB's wsrep_sync_wait: reads, changes and insertions.
SYNC_WAIT = 7


class SchemaError(Exception):
    """The database is not at the version that this code needs."""


def context_manager(conf):
    """The enginefacade of ``[database] connection``, not yet connected.

    :raises ConfigurationError: oslo.db would not know what it talks to.
    """
    manager = enginefacade.transaction_context()
    options = dict(conf.database)
    url = sa.engine.make_url(options['connection'])
    if url.get_backend_name() == 'mariadb':
        raise option_values.ConfigurationError(
            f'[database] connection begins with {url.drivername}: oslo.db '
            'recognizes neither deadlocks of such a connection nor '
            'mysql_wsrep_sync_wait. Let it begin with '
            f'{url.drivername.replace("mariadb", "mysql")}, which is the same '
            'server')
    if url.get_backend_name() == 'sqlite':
        options['sqlite_fk'] = True
    # For green threads: others would be let run whenever a connection is
    # returned, in the middle of what a thread does.
    manager.configure(thread_checkin=False, **options)
    if url.get_backend_name() == 'sqlite':
        manager.append_on_engine_create(sqlite.prepare)
    else:
        manager.append_on_engine_create(pool.prepare)
    return manager


def _alembic(engine):
    config = alembic_config.Config()
    config.set_main_option(
        'script_location', os.path.join(os.path.dirname(__file__),
                                        'migrations'))
    config.attributes['engine'] = engine
    return config


def _versions(engine):
    with engine.connect() as connection:
        current = migration.MigrationContext.configure(
            connection).get_current_revision()
    head = script.ScriptDirectory.from_config(
        _alembic(engine)).get_current_head()
    return current, head


def upgrade(manager):
    """Bring the database to the newest version. Returns (before, after)."""
    engine = manager.writer.get_engine()
    if engine.name == 'sqlite' and engine.url.database:
        os.makedirs(os.path.dirname(engine.url.database), exist_ok=True)
    before, head = _versions(engine)
    command.upgrade(_alembic(engine), 'head')
    return before, head


def has_snapshot_isolation(manager):
    """Whether the server refuses what a transaction of Octavia's may do.

    With it a transaction that reads for update what another one has changed
    since it began fails, once it is REPEATABLE READ. It is made again here,
    but not by Octavia.
    """
    engine = manager.writer.get_engine()
    if engine.name != 'mysql':
        return False
    with engine.connect() as connection:
        found = connection.execute(sa.text(
            'SHOW GLOBAL VARIABLES LIKE "innodb_snapshot_isolation"')).all()
    # Servers that do not know it show nothing.
    return [value for _, value in found] == ['ON']


def _warn_of_cluster(engine):
    """Say what controllers lack that write to several servers of Galera."""
    if engine.name != 'mysql':
        return
    with engine.connect() as connection:
        found = dict(connection.execute(sa.text(
            "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', "
            "'wsrep_cluster_address', 'wsrep_sync_wait')")).all())
    if (found.get('wsrep_on') == 'ON' and found.get('wsrep_cluster_address')
            and ~int(found['wsrep_sync_wait']) & SYNC_WAIT):
        LOG.warning(
            'The database is a Galera cluster, and its server does not wait '
            'for what others have committed (wsrep_sync_wait is %s): '
            'controllers that write to different servers may take what one '
            'of them has just stored for unknown. Set [database] '
            'mysql_wsrep_sync_wait = %s, unless all write to one server.',
            found['wsrep_sync_wait'], SYNC_WAIT)


def check(manager):
    """Refuse to run on a database of another version.

    :raises SchemaError: names the command that upgrades it.
    """
    try:
        engine = manager.writer.get_engine()
        current, head = _versions(engine)
        _warn_of_cluster(engine)
    except db_exception.DBError as error:
        raise SchemaError(f'The database cannot be reached: {error}. Is it '
                          'there, and was "octavia-xdp-manage database '
                          'upgrade" run?') from error
    if current != head:
        raise SchemaError(
            f'The database is at version {current}, this code needs {head}: '
            'run "octavia-xdp-manage database upgrade".')
