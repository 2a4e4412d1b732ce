# SPDX-License-Identifier: Apache-2.0
"""Nodes ask every few seconds whether one of them drains."""

from alembic import op

revision = '0015'
down_revision = '0014'


def upgrade():
    op.create_index('ix_placements_host_draining_since', 'placements',
                    ['host', 'draining_since'])
