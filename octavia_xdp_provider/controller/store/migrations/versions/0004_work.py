# SPDX-License-Identifier: Apache-2.0
"""Pending changes, the work queue, leases, and what Octavia was told."""

import json

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = '0004'
down_revision = '0003'

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade():
    # Columns that may be null: MariaDB gives texts no default, and one that
    # is not null could not be added to rows that exist.
    for name in ('pending', 'told', 'unconfirmed'):
        op.add_column('load_balancers',
                      sa.Column(name, DOCUMENT, nullable=True))
    for name in ('listed_at', 'compared_at'):
        op.add_column('load_balancers',
                      sa.Column(name, sa.String(64), nullable=True))
    op.add_column('load_balancers',
                  sa.Column('replicas', sa.Integer, nullable=True))
    _fill_replicas(op.get_bind())
    op.add_column('placements',
                  sa.Column('replace', sa.Boolean, nullable=True))
    op.add_column('nodes', sa.Column('condition', sa.String(16),
                                     nullable=True))
    op.create_table(
        'work',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('version', sa.BigInteger, nullable=False),
        sa.Column('due_at', sa.Double(), nullable=False, index=True),
        sa.Column('failures', sa.Integer, nullable=False),
        sa.Column('claimed_by', sa.String(255), nullable=True),
        sa.Column('claimed_until', sa.Double(), nullable=True))
    op.create_table(
        'leases',
        sa.Column('name', sa.String(64), primary_key=True),
        sa.Column('owner', sa.String(255), nullable=False),
        sa.Column('token', sa.BigInteger, nullable=False),
        sa.Column('expires_at', sa.Double(), nullable=False))
    op.create_table(
        'canceled_requests',
        sa.Column('request_id', sa.String(64), primary_key=True),
        sa.Column('at', sa.Double(), nullable=False, index=True))
    op.create_table(
        'tombstones',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('pending', DOCUMENT, nullable=True),
        sa.Column('at', sa.Double(), nullable=False, index=True))
    op.create_table(
        'misses',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('number', sa.Integer, nullable=False),
        sa.Column('first_at', sa.Double(), nullable=False))
    # Whoever looks at a load balancer for the first time compares it.
    op.execute(
        'INSERT INTO work (load_balancer_id, version, due_at, failures) '
        'SELECT id, 1, 0, 0 FROM load_balancers')


def _fill_replicas(connection):
    table = sa.table('load_balancers', sa.column('id', sa.String),
                     sa.column('document', DOCUMENT),
                     sa.column('replicas', sa.Integer))
    for key, document in connection.execute(
            sa.select(table.c.id, table.c.document)).all():
        replicas = json.loads(document).get('flavor', {}).get('replicas')
        if replicas is not None:
            connection.execute(table.update().where(
                table.c.id == key).values(replicas=replicas))
