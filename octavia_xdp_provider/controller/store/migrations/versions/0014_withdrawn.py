# SPDX-License-Identifier: Apache-2.0
"""Placements whose VIPs are withdrawn while flows by NAT go on."""

from alembic import op
import sqlalchemy as sa

revision = '0014'
down_revision = '0013'


def upgrade():
    with op.batch_alter_table('placements') as table:
        table.add_column(sa.Column('withdrawn_since', sa.Double(),
                                   nullable=True))
