# SPDX-License-Identifier: Apache-2.0
"""What clients of listeners were sent, where it passes LB nodes."""

from alembic import op
import sqlalchemy as sa

revision = '0013'
down_revision = '0012'


def upgrade():
    with op.batch_alter_table('listener_counters') as table:
        for name in ('last_bytes_out', 'total_bytes_out'):
            table.add_column(sa.Column(name, sa.BigInteger, nullable=False,
                                       server_default='0'))
