# SPDX-License-Identifier: Apache-2.0
"""Load balancers, nodes, placements and counters."""

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = '0001'
down_revision = None

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade():
    sequence = op.create_table(
        'sequence',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('value', sa.BigInteger, nullable=False))
    op.bulk_insert(sequence, [{'id': 1, 'value': 0}])
    op.create_table(
        'load_balancers',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('vip_address', sa.String(64), nullable=False, index=True),
        sa.Column('document', DOCUMENT, nullable=False),
        sa.Column('generation', sa.BigInteger, nullable=False),
        sa.Column('told_generation', sa.BigInteger, nullable=False),
        sa.Column('failed_generation', sa.BigInteger, nullable=False),
        sa.Column('removed', DOCUMENT, nullable=False),
        sa.Column('deleted', sa.Boolean, nullable=False),
        sa.Column('changed_at', sa.Double(), nullable=False))
    op.create_table(
        'pools',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  nullable=False, index=True))
    op.create_table(
        'nodes',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('last_seen', sa.Double(), nullable=False),
        sa.Column('in_service', sa.Boolean, nullable=False),
        sa.Column('state', DOCUMENT, nullable=False))
    op.create_table(
        'placements',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('host', sa.String(255), primary_key=True, index=True),
        sa.Column('synced_generation', sa.BigInteger, nullable=False),
        sa.Column('error', sa.Text, nullable=True),
        sa.Column('removed_generation', sa.BigInteger, nullable=True))
    op.create_table(
        'listener_counters',
        sa.Column('listener_id', sa.String(36), primary_key=True),
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  nullable=False, index=True),
        sa.Column('last_bytes', sa.BigInteger, nullable=False),
        sa.Column('last_flows', sa.BigInteger, nullable=False),
        sa.Column('total_bytes', sa.BigInteger, nullable=False),
        sa.Column('total_flows', sa.BigInteger, nullable=False))
