# SPDX-License-Identifier: Apache-2.0
"""The generation whose statuses were sent is called so."""

from alembic import op

revision = '0002'
down_revision = '0001'


def upgrade():
    # The same statement for SQLite, MariaDB and PostgreSQL. Alembic's batch
    # mode would make SQLite's table anew, and drop the rows that refer to it.
    op.execute('ALTER TABLE load_balancers '
               'RENAME COLUMN told_generation TO sent_generation')
