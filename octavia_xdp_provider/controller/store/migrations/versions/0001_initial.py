# SPDX-License-Identifier: Apache-2.0
"""All tables of the first release."""

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from octavia_xdp_provider.controller.store.migrations import steps

revision = '0001'
down_revision = None

DOCUMENT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
SEQUENCE = sa.table('sequence', sa.column('id', sa.Integer),
                    sa.column('value', sa.BigInteger))


def upgrade() -> None:
    _load_balancers()
    _nodes()
    _work()
    _hypervisors()


def _load_balancers() -> None:
    steps.create_table(
        'sequence',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('value', sa.BigInteger, nullable=False))
    if not op.get_bind().execute(sa.select(SEQUENCE)).all():
        op.bulk_insert(SEQUENCE, [{'id': 1, 'value': 0}])
    steps.create_table(
        'load_balancers',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('vip_address', sa.String(64), nullable=False),
        sa.Column('document', DOCUMENT, nullable=False),
        sa.Column('generation', sa.BigInteger, nullable=False),
        sa.Column('sent_generation', sa.BigInteger, nullable=False),
        sa.Column('failed_generation', sa.BigInteger, nullable=False),
        sa.Column('removed', DOCUMENT, nullable=False),
        sa.Column('deleted', sa.Boolean, nullable=False),
        sa.Column('changed_at', sa.Double(), nullable=False),
        sa.Column('pending', DOCUMENT, nullable=True),
        sa.Column('sent_statuses', DOCUMENT, nullable=True),
        sa.Column('unconfirmed', DOCUMENT, nullable=True),
        sa.Column('replicas', sa.Integer, nullable=True),
        sa.Column('listed_at', sa.String(64), nullable=True),
        sa.Column('compared_at', sa.String(64), nullable=True),
        sa.Column('zero_touch', sa.String(16), nullable=True),
        sa.Column('spread', sa.String(16), nullable=True),
        sa.Column('needs_proxies', sa.Boolean, nullable=False))
    steps.create_index('load_balancers', 'vip_address')
    steps.create_index('load_balancers', 'zero_touch')
    steps.create_table(
        'parts',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  nullable=False))
    steps.create_index('parts', 'load_balancer_id')
    steps.create_table(
        'vips',
        sa.Column('address', sa.String(64), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  primary_key=True))
    steps.create_index('vips', 'load_balancer_id')
    steps.create_table(
        'member_addresses',
        sa.Column('address', sa.String(64), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  primary_key=True))
    steps.create_index('member_addresses', 'load_balancer_id')
    steps.create_table(
        'bundles',
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('name', sa.String(64), primary_key=True),
        sa.Column('kind', sa.String(16), nullable=False),
        sa.Column('ciphertext', DOCUMENT, nullable=False),
        sa.Column('expires_at', sa.Double(), nullable=True))
    steps.create_index('bundles', 'name')
    steps.create_table(
        'usages',
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('services', sa.Integer, nullable=False),
        sa.Column('members', sa.Integer, nullable=False),
        sa.Column('project_id', sa.String(255), nullable=True),
        sa.Column('all_members', sa.Integer, nullable=False),
        sa.Column('bytes', sa.Integer, nullable=False))
    steps.create_index('usages', 'project_id')


def _nodes() -> None:
    steps.create_table(
        'nodes',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('last_seen', sa.Double(), nullable=False),
        sa.Column('in_service', sa.Boolean, nullable=False),
        sa.Column('state', DOCUMENT, nullable=False),
        sa.Column('condition', sa.String(16), nullable=True),
        sa.Column('died_or_back_at', sa.Double(), nullable=True),
        sa.Column('report_epoch', sa.BigInteger, nullable=False),
        sa.Column('report_seq', sa.BigInteger, nullable=False),
        sa.Column('complete', sa.Boolean, nullable=False),
        sa.Column('draining', sa.Boolean, nullable=False),
        sa.Column('nat_pools', sa.Text, nullable=True),
        sa.Column('zone', sa.String(255), nullable=True),
        sa.Column('role', sa.String(16), nullable=False),
        sa.Column('proxy_addresses', sa.Text, nullable=True),
        sa.Column('public_key', sa.Text, nullable=True))
    steps.create_table(
        'placements',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('synced_generation', sa.BigInteger, nullable=False),
        sa.Column('error', sa.Text, nullable=True),
        sa.Column('removed_generation', sa.BigInteger, nullable=True),
        sa.Column('replace', sa.Boolean, nullable=True),
        sa.Column('placed_generation', sa.BigInteger, nullable=False),
        sa.Column('members', DOCUMENT, nullable=True),
        sa.Column('announced', sa.Boolean, nullable=True),
        sa.Column('history', DOCUMENT, nullable=True),
        sa.Column('report_epoch', sa.BigInteger, nullable=False),
        sa.Column('draining_since', sa.Double(), nullable=True),
        sa.Column('withdrawn_since', sa.Double(), nullable=True),
        sa.Column('drain_generation', sa.BigInteger, nullable=False),
        sa.Column('role', sa.String(16), nullable=False))
    steps.create_index('placements', 'host')
    steps.create_index('placements', 'host', 'draining_since')
    steps.create_table(
        'removals',
        sa.Column('id', sa.Integer, primary_key=True),
        sa.Column('at', sa.Double(), nullable=False),
        sa.Column('number', sa.Integer, nullable=False))
    steps.create_index('removals', 'at')
    steps.create_table(
        'listener_counters',
        sa.Column('listener_id', sa.String(36), primary_key=True),
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36),
                  sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
                  nullable=False),
        sa.Column('last_bytes', sa.BigInteger, nullable=False),
        sa.Column('last_flows', sa.BigInteger, nullable=False),
        sa.Column('last_drops', sa.BigInteger, nullable=False),
        sa.Column('total_bytes', sa.BigInteger, nullable=False),
        sa.Column('total_flows', sa.BigInteger, nullable=False),
        sa.Column('total_drops', sa.BigInteger, nullable=False),
        sa.Column('last_bytes_out', sa.BigInteger, nullable=False),
        sa.Column('total_bytes_out', sa.BigInteger, nullable=False),
        sa.Column('active', sa.BigInteger, nullable=False),
        sa.Column('counts', sa.Boolean, nullable=False))
    steps.create_index('listener_counters', 'load_balancer_id')


def _work() -> None:
    steps.create_table(
        'work',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('version', sa.BigInteger, nullable=False),
        sa.Column('due_at', sa.Double(), nullable=False),
        sa.Column('failures', sa.Integer, nullable=False),
        sa.Column('claimed_by', sa.String(255), nullable=True),
        sa.Column('claimed_until', sa.Double(), nullable=True))
    steps.create_index('work', 'due_at')
    steps.create_table(
        'leases',
        sa.Column('name', sa.String(64), primary_key=True),
        sa.Column('owner', sa.String(255), nullable=False),
        sa.Column('token', sa.BigInteger, nullable=False),
        sa.Column('expires_at', sa.Double(), nullable=False))
    steps.create_table(
        'canceled_requests',
        sa.Column('request_id', sa.String(64), primary_key=True),
        sa.Column('at', sa.Double(), nullable=False))
    steps.create_index('canceled_requests', 'at')
    steps.create_table(
        'answered_requests',
        sa.Column('request_id', sa.String(64), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('at', sa.Double(), nullable=False))
    steps.create_index('answered_requests', 'at')
    steps.create_table(
        'tombstones',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('pending', DOCUMENT, nullable=True),
        sa.Column('at', sa.Double(), nullable=False))
    steps.create_index('tombstones', 'at')
    steps.create_table(
        'misses',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('number', sa.Integer, nullable=False),
        sa.Column('first_at', sa.Double(), nullable=False))


def _hypervisors() -> None:
    steps.create_table(
        'hypervisors',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('last_seen', sa.Double(), nullable=False),
        sa.Column('in_service', sa.Boolean, nullable=False),
        sa.Column('state', DOCUMENT, nullable=False),
        sa.Column('report_epoch', sa.BigInteger, nullable=False),
        sa.Column('report_seq', sa.BigInteger, nullable=False),
        sa.Column('complete', sa.Boolean, nullable=False),
        sa.Column('reported_generation', sa.BigInteger, nullable=False))
    steps.create_table(
        'host_objects',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('kind', sa.String(16), nullable=False),
        sa.Column('document', DOCUMENT, nullable=False),
        sa.Column('generation', sa.BigInteger, nullable=False),
        sa.Column('removed_generation', sa.BigInteger, nullable=True),
        sa.Column('held_generation', sa.BigInteger, nullable=False),
        sa.Column('ifindex', sa.Integer, nullable=True),
        sa.Column('error', sa.Text, nullable=True),
        sa.Column('report_epoch', sa.BigInteger, nullable=False),
        sa.Column('counters', DOCUMENT, nullable=True))
    steps.create_table(
        'host_keys',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('key', sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column('port_id', sa.String(36), nullable=False),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('listener_id', sa.String(36), nullable=False),
        sa.Column('member_id', sa.String(36), nullable=False),
        sa.Column('entry', DOCUMENT, nullable=False),
        sa.Column('unused_generation', sa.BigInteger, nullable=True),
        sa.Column('free_at', sa.Double(), nullable=True))
    steps.create_index('host_keys', 'load_balancer_id')
    steps.create_table(
        'member_ways',
        sa.Column('load_balancer_id', sa.String(36), primary_key=True),
        sa.Column('member_id', sa.String(36), primary_key=True),
        sa.Column('way', sa.String(16), nullable=False),
        sa.Column('host', sa.String(255), nullable=True),
        sa.Column('port_id', sa.String(36), nullable=True),
        sa.Column('reason', sa.Text, nullable=False))
