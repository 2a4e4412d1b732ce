# SPDX-License-Identifier: Apache-2.0
"""Removals from failed nodes are counted."""

from alembic import op
import sqlalchemy as sa

revision = '0003'
down_revision = '0002'


def upgrade():
    op.create_table(
        'removals',
        sa.Column('id', sa.Integer, primary_key=True),
        sa.Column('at', sa.Double(), nullable=False, index=True),
        sa.Column('number', sa.Integer, nullable=False))
