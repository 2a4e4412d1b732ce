# SPDX-License-Identifier: Apache-2.0
"""Drops of listeners."""

from alembic import op
import sqlalchemy as sa

revision = '0009'
down_revision = '0008'


def upgrade():
    with op.batch_alter_table('listener_counters') as table:
        for name in ('last_drops', 'total_drops'):
            table.add_column(sa.Column(name, sa.BigInteger, nullable=False,
                                       server_default='0'))
