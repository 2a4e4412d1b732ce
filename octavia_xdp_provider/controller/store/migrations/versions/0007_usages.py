# SPDX-License-Identifier: Apache-2.0
"""What load balancers take of their nodes' tables."""

import json

from alembic import op
import sqlalchemy as sa

revision = '0007'
down_revision = '0006'


def upgrade():
    usages = op.create_table(
        'usages',
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('services', sa.Integer, nullable=False),
        sa.Column('members', sa.Integer, nullable=False))
    for key, text in op.get_bind().execute(sa.text(
            'SELECT id, document FROM load_balancers')).fetchall():
        document = json.loads(text)
        listeners = document.get('listeners', {}).values()
        pools = document.get('pools', {})
        # One VIP: a document of before has no others.
        op.bulk_insert(usages, [{
            'load_balancer_id': key, 'services': len(listeners),
            'members': sum(
                len(pools.get(listener['default_pool_id'], {}).get(
                    'members', ())) for listener in listeners)}])
