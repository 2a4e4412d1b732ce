# SPDX-License-Identifier: Apache-2.0
"""Nodes report what has changed, and their health is kept for all."""

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = '0006'
down_revision = '0005'

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def _number(name):
    return sa.Column(name, sa.BigInteger, nullable=False, server_default='0')


def upgrade():
    with op.batch_alter_table('nodes') as table:
        table.add_column(_number('report_epoch'))
        table.add_column(_number('report_seq'))
        table.add_column(sa.Column('complete', sa.Boolean, nullable=False,
                                   server_default=sa.false()))
    with op.batch_alter_table('placements') as table:
        table.add_column(_number('placed_generation'))
        table.add_column(sa.Column('members', DOCUMENT, nullable=True))
        table.add_column(sa.Column('announced', sa.Boolean, nullable=True))
        table.add_column(_number('report_epoch'))
