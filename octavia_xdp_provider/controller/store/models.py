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
    ``failed_generation``: the newest one that no node could do in time, and
    for which an operating status of ERROR was sent; of a deletion, that not
    all nodes could, and a provisioning status of ERROR.

    ``pending``: a change that Octavia may not have committed yet, which has
    no effect, see store/requests.py; null if there is none, else JSON
    ``{"request": uuid, "deadline": seconds since the epoch by the
    database's clock, "change": a Change (common/changes.py), "expected":
    the document with the change, or null where the load balancer is
    deleted}``. A row of generation 0 is a creation that is pending: its
    ``document`` is the expected one, and it has no placements.
    ``unconfirmed``: objects whose provisioning status ACTIVE is still to be
    sent, a JSON list of ``[kind, id, generation]``. ``sent_statuses``:
    operating statuses that Octavia was last sent, JSON
    ``{"kind id": status}``. Null stands for an empty one. ``replicas``: nodes
    that the flavor wants; null for ``[placement] replicas``. ``listed_at``:
    ``updated_at`` in Octavia's last list; ``compared_at``: as of which value
    the document was compared
    with Octavia's, "sent" if nothing has moved it since but what Octavia was
    sent, null if it shall be compared. ``zero_touch``: the flavor's, null for
    off.
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
    pending = sa.Column(Document, nullable=True)
    sent_statuses = sa.Column(Document, nullable=True)
    unconfirmed = sa.Column(Document, nullable=True)
    replicas = sa.Column(sa.Integer, nullable=True)
    listed_at = sa.Column(sa.String(64), nullable=True)
    compared_at = sa.Column(sa.String(64), nullable=True)
    zero_touch = sa.Column(sa.String(16), nullable=True, index=True)


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
    ``condition``: as the leader of the controllers judges it, a value of
    scheduler/cluster.py's Condition, or null if it has not looked yet;
    ``died_or_back_at``: when it was last found dead, or to be so no longer,
    seconds since the epoch by the database's clock; null: never.
    ``report_epoch``, ``report_seq``: of the last report that was taken, 0
    before. ``complete``: whether that
    epoch has reported all that there is. ``draining``: the operator's word,
    too: it is out of service, and routers shall prefer others at once.
    ``nat_pools``: its pools for NAT, as the operator has registered them, a
    JSON list; null for none. What it reports itself counts inside of these.
    """

    __tablename__ = 'nodes'
    host = sa.Column(sa.String(255), primary_key=True)
    last_seen = sa.Column(sa.Double(), nullable=False)
    in_service = sa.Column(sa.Boolean, nullable=False, default=True)
    state = sa.Column(Document, nullable=False, default='{}')
    condition = sa.Column(sa.String(16), nullable=True)
    died_or_back_at = sa.Column(sa.Double(), nullable=True)
    report_epoch = sa.Column(sa.BigInteger, nullable=False, default=0)
    report_seq = sa.Column(sa.BigInteger, nullable=False, default=0)
    complete = sa.Column(sa.Boolean, nullable=False, default=False)
    draining = sa.Column(sa.Boolean, nullable=False, default=False)
    nat_pools = sa.Column(sa.Text, nullable=True)


class Placement(Base):
    """A load balancer on a node.

    ``placed_generation``: that of being placed, or 0.
    ``synced_generation``: the newest one that the node has looked at, 0 if
    it does not have the load balancer.
    ``error``: why the node could not make it true.
    ``removed_generation``: not null when it shall leave the node; the
    row goes when the node, as of that generation or later, does not have it
    any more. ``replace``: true when another node shall take it over first (a
    failover).
    ``members``: states of monitored members by id, JSON; null: not reported.
    ``announced``: whether the node announces the VIPs; null: not reported.
    ``report_epoch``: of the report that said so. ``history``: which members
    took new flows before, as the node reports it, JSON ``{pool id: [[at,
    {member id: weight before}, slots before]]}``, the newest first, seconds
    since the epoch by the database's clock; null: nothing is reported.
    ``draining_since``: since when the node shall announce the VIPs as a last
    resort, seconds since the epoch by the database's clock; null: it shall
    not. ``withdrawn_since``: the same, since when it shall not announce them
    at all, and only keep the flows that it has by NAT. ``drain_generation``:
    of the last change of these, or 0.
    """

    __tablename__ = 'placements'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    host = sa.Column(sa.String(255), primary_key=True, index=True)
    synced_generation = sa.Column(sa.BigInteger, nullable=False, default=0)
    error = sa.Column(sa.Text, nullable=True)
    removed_generation = sa.Column(sa.BigInteger, nullable=True)
    replace = sa.Column(sa.Boolean, nullable=True)
    placed_generation = sa.Column(sa.BigInteger, nullable=False, default=0)
    members = sa.Column(Document, nullable=True)
    announced = sa.Column(sa.Boolean, nullable=True)
    report_epoch = sa.Column(sa.BigInteger, nullable=False, default=0)
    draining_since = sa.Column(sa.Double(), nullable=True)
    withdrawn_since = sa.Column(sa.Double(), nullable=True)
    drain_generation = sa.Column(sa.BigInteger, nullable=False, default=0)
    history = sa.Column(Document, nullable=True)
    # Nodes ask every few seconds whether one of them drains.
    __table_args__ = sa.Index('ix_placements_host_draining_since', host,
                              draining_since),


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
    ``active``: flows that were alive then, which is no counter.
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
    last_drops = sa.Column(sa.BigInteger, nullable=False, default=0)
    total_bytes = sa.Column(sa.BigInteger, nullable=False, default=0)
    total_flows = sa.Column(sa.BigInteger, nullable=False, default=0)
    total_drops = sa.Column(sa.BigInteger, nullable=False, default=0)
    last_bytes_out = sa.Column(sa.BigInteger, nullable=False, default=0)
    total_bytes_out = sa.Column(sa.BigInteger, nullable=False, default=0)
    active = sa.Column(sa.BigInteger, nullable=False, default=0)


class Work(Base):
    """A load balancer that somebody has to look at, see store/work.py.

    ``version`` grows with each mark, so that one which comes while the item
    is worked on is not lost. ``due_at``, ``claimed_until``: seconds since
    the epoch by the database's clock. ``failures``: how often in a row it
    was not finished, and was to be looked at again.
    """

    __tablename__ = 'work'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    version = sa.Column(sa.BigInteger, nullable=False, default=1)
    due_at = sa.Column(sa.Double(), nullable=False, index=True)
    failures = sa.Column(sa.Integer, nullable=False, default=0)
    claimed_by = sa.Column(sa.String(255), nullable=True)
    claimed_until = sa.Column(sa.Double(), nullable=True)


class Lease(Base):
    """Who does what only one controller may do, see store/leases.py.

    ``token`` grows whenever the owner changes. ``expires_at``: seconds
    since the epoch by the database's clock.
    """

    __tablename__ = 'leases'
    name = sa.Column(sa.String(64), primary_key=True)
    owner = sa.Column(sa.String(255), nullable=False)
    token = sa.Column(sa.BigInteger, nullable=False)
    expires_at = sa.Column(sa.Double(), nullable=False)


class CanceledRequest(Base):
    """A request that its caller gave up before it arrived.

    ``at``: seconds since the epoch, by the database's clock.
    """

    __tablename__ = 'canceled_requests'
    request_id = sa.Column(sa.String(64), primary_key=True)
    at = sa.Column(sa.Double(), nullable=False, index=True)


class AnsweredRequest(Base):
    """A request that was accepted: the same one once more changes nothing.

    ``at``: seconds since the epoch, by the database's clock.
    """

    __tablename__ = 'answered_requests'
    request_id = sa.Column(sa.String(64), primary_key=True)
    load_balancer_id = sa.Column(sa.String(36), nullable=False)
    at = sa.Column(sa.Double(), nullable=False, index=True)


class Vip(Base):
    """An address that a load balancer has or would have as a VIP.

    More than one may have an address while all but one are being deleted, and
    are on no node that is heard.
    """

    __tablename__ = 'vips'
    address = sa.Column(sa.String(64), primary_key=True)
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        primary_key=True, index=True)


class MemberAddress(Base):
    """An address to which a load balancer sends packets or probes, or would.
    """

    __tablename__ = 'member_addresses'
    address = sa.Column(sa.String(64), primary_key=True)
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        primary_key=True, index=True)


class Usage(Base):
    """What a load balancer takes of the tables of each of its nodes, and how
    large it is.

    ``all_members``: of all its pools. ``bytes``: of its document, in steps
    (``limits.in_steps``).
    """

    __tablename__ = 'usages'
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        primary_key=True)
    services = sa.Column(sa.Integer, nullable=False)
    members = sa.Column(sa.Integer, nullable=False)
    project_id = sa.Column(sa.String(255), nullable=True, index=True)
    all_members = sa.Column(sa.Integer, nullable=False, default=0)
    bytes = sa.Column(sa.Integer, nullable=False, default=0)


class Tombstone(Base):
    """A load balancer that is not held, whose deletion was asked for.

    It was deleted before, or never known. ``pending``: as of LoadBalancer,
    null if nothing is. ``at``: of the deletion, seconds since the epoch by
    the database's clock.
    """

    __tablename__ = 'tombstones'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    pending = sa.Column(Document, nullable=True)
    at = sa.Column(sa.Double(), nullable=False, index=True)


class Miss(Base):
    """A load balancer that Octavia did not list though it is held.

    ``number``: of lists in a row that lacked it; ``first_at``: time of the
    first of them, seconds since the epoch by the database's clock.
    """

    __tablename__ = 'misses'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    number = sa.Column(sa.Integer, nullable=False)
    first_at = sa.Column(sa.Double(), nullable=False)


class Hypervisor(Base):
    """A hypervisor whose agent may call, as the operator registered it.

    ``host``: as Neutron has it. ``last_seen``: seconds since the epoch by the
    database's clock, 0: never. ``in_service``: the operator's word.
    ``state``: what the agent last reported of itself, JSON. ``report_epoch``,
    ``report_seq``, ``complete``: as of Node. ``reported_generation``: drawn
    when a report changed something that others wait for.
    """

    __tablename__ = 'hypervisors'
    host = sa.Column(sa.String(255), primary_key=True)
    last_seen = sa.Column(sa.Double(), nullable=False, default=0)
    in_service = sa.Column(sa.Boolean, nullable=False, default=True)
    state = sa.Column(Document, nullable=False, default='{}')
    report_epoch = sa.Column(sa.BigInteger, nullable=False, default=0)
    report_seq = sa.Column(sa.BigInteger, nullable=False, default=0)
    complete = sa.Column(sa.Boolean, nullable=False, default=False)
    reported_generation = sa.Column(sa.BigInteger, nullable=False, default=0)


class HostObject(Base):
    """A port or an address set that a hypervisor should have.

    ``generation``: of the document. ``removed_generation``: not null when it
    shall go; the row goes when the agent, as of that generation or later,
    does not have it any more. The others are as the agent reported them:
    ``held_generation`` is 0 where it does not have it; ``counters``: JSON.
    """

    __tablename__ = 'host_objects'
    host = sa.Column(sa.String(255), primary_key=True)
    id = sa.Column(sa.String(36), primary_key=True)
    kind = sa.Column(sa.String(16), nullable=False)
    document = sa.Column(Document, nullable=False)
    generation = sa.Column(sa.BigInteger, nullable=False)
    removed_generation = sa.Column(sa.BigInteger, nullable=True)
    held_generation = sa.Column(sa.BigInteger, nullable=False, default=0)
    ifindex = sa.Column(sa.Integer, nullable=True)
    error = sa.Column(sa.Text, nullable=True)
    report_epoch = sa.Column(sa.BigInteger, nullable=False, default=0)
    counters = sa.Column(Document, nullable=True)


class HostKey(Base):
    """A key of a hypervisor: a listener at a member.

    ``entry``: of the port's document, JSON; it is there until LB nodes have
    stopped to use the key. ``unused_generation``: not null when the load
    balancer's document, from this generation on, does not use it.
    ``free_at``: not null when the entry was taken off the hypervisor: since
    then nobody may have the key until this time, seconds since the epoch by
    the database's clock.
    """

    __tablename__ = 'host_keys'
    host = sa.Column(sa.String(255), primary_key=True)
    key = sa.Column(sa.BigInteger, primary_key=True, autoincrement=False)
    port_id = sa.Column(sa.String(36), nullable=False)
    load_balancer_id = sa.Column(sa.String(36), nullable=False, index=True)
    listener_id = sa.Column(sa.String(36), nullable=False)
    member_id = sa.Column(sa.String(36), nullable=False)
    entry = sa.Column(Document, nullable=False)
    unused_generation = sa.Column(sa.BigInteger, nullable=True)
    free_at = sa.Column(sa.Double(), nullable=True)


class MemberWay(Base):
    """How a member is reached, for the operator: ``way`` is tunnel, direct,
    none or waiting, ``host`` the hypervisor, ``reason`` why."""

    __tablename__ = 'member_ways'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    member_id = sa.Column(sa.String(36), primary_key=True)
    way = sa.Column(sa.String(16), nullable=False)
    host = sa.Column(sa.String(255), nullable=True)
    port_id = sa.Column(sa.String(36), nullable=True)
    reason = sa.Column(sa.Text, nullable=False, default='')
