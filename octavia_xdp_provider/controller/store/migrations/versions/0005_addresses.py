# SPDX-License-Identifier: Apache-2.0
"""Addresses of VIPs and members, and requests that were answered."""

import ipaddress
import json

from alembic import op
import sqlalchemy as sa

revision = '0005'
down_revision = '0004'


def _addresses_table(name):
    return op.create_table(
        name,
        sa.Column('address', sa.String(64), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  primary_key=True, index=True))


def upgrade():
    op.create_table(
        'answered_requests',
        sa.Column('request_id', sa.String(64), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('at', sa.Double(), nullable=False, index=True))
    vips = _addresses_table('vips')
    members = _addresses_table('member_addresses')
    for key, text in op.get_bind().execute(sa.text(
            'SELECT id, document FROM load_balancers')).fetchall():
        document = json.loads(text)
        _insert(vips, key, {document.get('vip_address')})
        _insert(members, key, {
            address for pool in document.get('pools', {}).values()
            for member in pool['members'].values()
            for address in (member['address'],
                            member.get('monitor_address'))})


def _insert(table, key, addresses):
    spelled = {str(ipaddress.ip_address(address)) for address in addresses
               if address}
    if spelled:
        op.bulk_insert(table, [
            {'address': address, 'load_balancer_id': key}
            for address in sorted(spelled)])
