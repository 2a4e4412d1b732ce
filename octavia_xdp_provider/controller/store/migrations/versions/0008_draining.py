# SPDX-License-Identifier: Apache-2.0
"""Nodes and placements that are drained."""

from alembic import op
import sqlalchemy as sa

revision = '0008'
down_revision = '0007'


def upgrade():
    with op.batch_alter_table('nodes') as table:
        table.add_column(sa.Column('draining', sa.Boolean, nullable=False,
                                   server_default=sa.false()))
    with op.batch_alter_table('placements') as table:
        table.add_column(sa.Column('draining_since', sa.Double(),
                                   nullable=True))
        table.add_column(sa.Column('drain_generation', sa.BigInteger,
                                   nullable=False, server_default='0'))
