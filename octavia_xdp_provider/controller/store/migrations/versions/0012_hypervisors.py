# SPDX-License-Identifier: Apache-2.0
"""Hypervisors, and how members on them are reached."""

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = '0012'
down_revision = '0011'

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def _number(name):
    return sa.Column(name, sa.BigInteger, nullable=False, server_default='0')


def upgrade():
    with op.batch_alter_table('load_balancers') as table:
        table.add_column(sa.Column('zero_touch', sa.String(16),
                                   nullable=True))
    op.create_index('ix_load_balancers_zero_touch', 'load_balancers',
                    ['zero_touch'])
    op.create_table(
        'hypervisors',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('last_seen', sa.Double(), nullable=False,
                  server_default='0'),
        sa.Column('in_service', sa.Boolean, nullable=False,
                  server_default=sa.true()),
        sa.Column('state', DOCUMENT, nullable=False),
        _number('report_epoch'), _number('report_seq'),
        sa.Column('complete', sa.Boolean, nullable=False,
                  server_default=sa.false()),
        _number('reported_generation'))
    op.create_table(
        'host_objects',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('kind', sa.String(16), nullable=False),
        sa.Column('document', DOCUMENT, nullable=False),
        sa.Column('generation', sa.BigInteger, nullable=False),
        sa.Column('removed_generation', sa.BigInteger, nullable=True),
        _number('held_generation'),
        sa.Column('ifindex', sa.Integer, nullable=True),
        sa.Column('error', sa.Text, nullable=True),
        _number('report_epoch'),
        sa.Column('counters', DOCUMENT, nullable=True))
    op.create_table(
        'host_keys',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('key', sa.BigInteger, primary_key=True,
                  autoincrement=False),
        sa.Column('port_id', sa.String(36), nullable=False),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('listener_id', sa.String(36), nullable=False),
        sa.Column('member_id', sa.String(36), nullable=False),
        sa.Column('entry', DOCUMENT, nullable=False),
        sa.Column('unused_generation', sa.BigInteger, nullable=True),
        sa.Column('free_at', sa.Double(), nullable=True))
    op.create_index('ix_host_keys_load_balancer_id', 'host_keys',
                    ['load_balancer_id'])
    op.create_table(
        'member_ways',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('member_id', sa.String(36), primary_key=True),
        sa.Column('way', sa.String(16), nullable=False),
        sa.Column('host', sa.String(255), nullable=True),
        sa.Column('port_id', sa.String(36), nullable=True),
        sa.Column('reason', sa.Text, nullable=False))
