# SPDX-License-Identifier: Apache-2.0
"""What nodes report of members that took new flows before."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from octavia_xdp_provider.controller.store.migrations import steps

revision = '0002'
down_revision = '0001'


def upgrade():
    steps.add_column('placements', sa.Column(
        'history', sa.Text().with_variant(
            mysql.MEDIUMTEXT(), 'mysql', 'mariadb'), nullable=True))
