# SPDX-License-Identifier: Apache-2.0
"""Statuses that were sent are called so."""

from alembic import op

revision = '0011'
down_revision = '0010'


def upgrade():
    # The same for SQLite, MariaDB and PostgreSQL, and without Alembic's batch
    # mode, as in 0002.
    op.execute('ALTER TABLE load_balancers RENAME COLUMN told TO '
               'sent_statuses')
    op.execute("UPDATE load_balancers SET compared_at = 'sent' "
               "WHERE compared_at = 'told'")
