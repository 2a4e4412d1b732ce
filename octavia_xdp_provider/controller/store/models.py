# SPDX-License-Identifier: Apache-2.0
"""Tables of the controller's own database."""

from oslo_db.sqlalchemy import models
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import mysql

Base = orm.declarative_base(cls=models.ModelBase)

# 64 KiB, the size of MariaDB's TEXT, hold about 250 members.
Document = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


class Sequence(Base):
    """The one counter from which all generations are drawn.

    One counter for all load balancers makes generations comparable with
    what a node had fetched as a whole: a report "as of n" proves that the
    node has seen every change up to n, removals included.
    """

    __tablename__ = 'sequence'
    id = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    value = sa.Column(sa.BigInteger, nullable=False)


class LoadBalancer(Base):
    """The wanted state of a load balancer and what was sent to Octavia.

    ``generation``: of the document. ``sent_generation``: the newest one for
    which Octavia's statuses were set. ``removed``: objects deleted since,
    whose DELETED is still to be sent, a JSON list of
    ``[kind, id, generation]``. ``changed_at``, ``deleted``: the time of the
    last change (seconds since the epoch) and whether it was the deletion.
    ``failed_generation``: the newest one for which ERROR was sent.
    """

    __tablename__ = 'load_balancers'
    id = sa.Column(sa.String(36), primary_key=True)
    vip_address = sa.Column(sa.String(64), nullable=False, index=True)
    document = sa.Column(Document, nullable=False)
    generation = sa.Column(sa.BigInteger, nullable=False)
    sent_generation = sa.Column(sa.BigInteger, nullable=False, default=0)
    failed_generation = sa.Column(sa.BigInteger, nullable=False, default=0)
    removed = sa.Column(Document, nullable=False, default='[]')
    deleted = sa.Column(sa.Boolean, nullable=False, default=False)
    changed_at = sa.Column(sa.Double(), nullable=False)


class Pool(Base):
    """Which load balancer a pool belongs to: members name their pool only."""

    __tablename__ = 'pools'
    id = sa.Column(sa.String(36), primary_key=True)
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        nullable=False, index=True)


class Node(Base):
    """An LB node, known since its first report.

    ``last_seen``: seconds since the epoch. ``in_service``: the operator's
    word. ``state``: what the node last reported of itself, JSON.
    """

    __tablename__ = 'nodes'
    host = sa.Column(sa.String(255), primary_key=True)
    last_seen = sa.Column(sa.Double(), nullable=False)
    in_service = sa.Column(sa.Boolean, nullable=False, default=True)
    state = sa.Column(Document, nullable=False, default='{}')


class Placement(Base):
    """A load balancer on a node.

    ``synced_generation``: the newest one that the node has made true.
    ``removed_generation``: not null when it shall leave the node; the
    row goes when the node's report, as of that generation or later, does
    not list it any more.
    """

    __tablename__ = 'placements'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    host = sa.Column(sa.String(255), primary_key=True, index=True)
    synced_generation = sa.Column(sa.BigInteger, nullable=False, default=0)
    error = sa.Column(sa.Text, nullable=True)
    removed_generation = sa.Column(sa.BigInteger, nullable=True)


class Removal(Base):
    """Removals from failed nodes, for the budget that limits them.

    ``at``: seconds since the epoch. ``number``: how many; less than zero
    where the operator has allowed so many more.
    """

    __tablename__ = 'removals'
    id = sa.Column(sa.Integer, primary_key=True)
    at = sa.Column(sa.Double(), nullable=False, index=True)
    number = sa.Column(sa.Integer, nullable=False)


class ListenerCounter(Base):
    """What a node counted for a listener, made into what never falls.

    ``last_*``: as the node reported them last; they start again from 0 when
    its service is made anew. ``total_*``: all that the node ever counted.
    """

    __tablename__ = 'listener_counters'
    listener_id = sa.Column(sa.String(36), primary_key=True)
    host = sa.Column(sa.String(255), primary_key=True)
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        nullable=False, index=True)
    last_bytes = sa.Column(sa.BigInteger, nullable=False, default=0)
    last_flows = sa.Column(sa.BigInteger, nullable=False, default=0)
    total_bytes = sa.Column(sa.BigInteger, nullable=False, default=0)
    total_flows = sa.Column(sa.BigInteger, nullable=False, default=0)
