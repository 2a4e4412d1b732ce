# SPDX-License-Identifier: Apache-2.0
"""Creates and upgrades the controller's database."""

import os
from typing import Any

from alembic import command
from alembic import config as alembic_config
from alembic import migration
from alembic import script
from oslo_config import cfg
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import enginefacade
from oslo_log import log as logging
import sqlalchemy as sa

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.controller.store import pool
from octavia_xdp_provider.controller.store import sqlite

LOG = logging.getLogger(__name__)

# Bits of MariaDB's wsrep_sync_wait: reads, updates and inserts.
SYNC_WAIT = 7


class SchemaError(Exception):
    """The database cannot be reached or is not at the required version."""


def context_manager(conf: cfg.ConfigOpts) -> Any:
    """Return the enginefacade of ``[database] connection``, not connected yet.

    :raises ConfigurationError: oslo.db does not support the URL's scheme.
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
    # thread_checkin is for green threads: it would yield to other threads
    # whenever a connection is returned.
    manager.configure(thread_checkin=False, **options)
    if url.get_backend_name() == 'sqlite':
        manager.append_on_engine_create(sqlite.prepare)
    else:
        manager.append_on_engine_create(pool.prepare)
    return manager


def _alembic(engine: sa.Engine) -> alembic_config.Config:
    config = alembic_config.Config()
    config.set_main_option(
        'script_location', os.path.join(os.path.dirname(__file__),
                                        'migrations'))
    config.attributes['engine'] = engine
    return config


def _versions(engine: sa.Engine) -> tuple[str | None, str | None]:
    with engine.connect() as connection:
        current = migration.MigrationContext.configure(
            connection).get_current_revision()
    head = script.ScriptDirectory.from_config(
        _alembic(engine)).get_current_head()
    return current, head


def upgrade(manager: Any) -> tuple[str | None, str | None]:
    """Upgrade the database to the newest version. Returns (before, after)."""
    engine = manager.writer.get_engine()
    if engine.name == 'sqlite' and engine.url.database:
        os.makedirs(os.path.dirname(engine.url.database), exist_ok=True)
    before, head = _versions(engine)
    command.upgrade(_alembic(engine), 'head')
    return before, head


def has_snapshot_isolation(manager: Any) -> bool:
    """Return whether the server refuses what Octavia's transactions may do.

    With snapshot isolation a REPEATABLE READ transaction fails if it reads for
    update a row that another one has changed since it began. This provider
    retries such transactions, but Octavia does not.
    """
    engine = manager.writer.get_engine()
    if engine.name != 'mysql':
        return False
    with engine.connect() as connection:
        variables = connection.execute(sa.text(
            'SHOW GLOBAL VARIABLES LIKE "innodb_snapshot_isolation"')).all()
    # Servers without this variable return nothing.
    return [value for _, value in variables] == ['ON']


def _warn_of_cluster(engine: sa.Engine) -> None:
    """Warn if controllers cannot safely write to several Galera servers."""
    if engine.name != 'mysql':
        return
    with engine.connect() as connection:
        variables = dict(connection.execute(sa.text(
            "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', "
            "'wsrep_cluster_address', 'wsrep_sync_wait')")).tuples().all())
    if (variables.get('wsrep_on') == 'ON'
            and variables.get('wsrep_cluster_address')
            and ~int(variables['wsrep_sync_wait']) & SYNC_WAIT):
        LOG.warning(
            'The database is a Galera cluster with wsrep_sync_wait %s: a '
            'controller may not see rows that were just written through '
            'another server. Set [database] mysql_wsrep_sync_wait = %s, '
            'unless all controllers use one server.',
            variables['wsrep_sync_wait'], SYNC_WAIT)


def check(manager: Any) -> None:
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
