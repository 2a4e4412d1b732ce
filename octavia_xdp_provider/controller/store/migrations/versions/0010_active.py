# SPDX-License-Identifier: Apache-2.0
"""Active flows of listeners."""

from alembic import op
import sqlalchemy as sa

revision = '0010'
down_revision = '0009'


def upgrade():
    with op.batch_alter_table('listener_counters') as table:
        table.add_column(sa.Column('active', sa.BigInteger, nullable=False,
                                   server_default='0'))
