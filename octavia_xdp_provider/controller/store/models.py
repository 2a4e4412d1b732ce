# SPDX-License-Identifier: Apache-2.0
"""Tables of the controller's own database."""

from typing import Any

from oslo_db.sqlalchemy import models
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import mysql

Base: Any = orm.declarative_base(cls=models.ModelBase)

# Seconds since the epoch.
Time: sa.Double[float] = sa.Double()

# MariaDB's TEXT has 64 KiB, which hold about 250 members.
Document = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


class Sequence(Base):
    """The counter from which all generations are drawn.

    A single counter for all load balancers makes generations comparable with
    a node's fetch as a whole: a report "as of n" proves that the node has
    seen every change up to n, including removals.
    """

    __tablename__ = 'sequence'
    id = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    value = sa.Column(sa.BigInteger, nullable=False)


class LoadBalancer(Base):
    """The wanted state of a load balancer and what was sent to Octavia.

    ``generation``: of the document. ``sent_generation``: the newest one for
    which Octavia's statuses were set. ``removed``: objects deleted since,
    for which DELETED has yet to be sent, a JSON list of
    ``[kind, id, generation]``. ``changed_at``, ``deleted``: the time of the
    last change (seconds since the epoch) and whether it was the deletion.
    ``failed_generation``: the newest one that no node applied in time, and
    for which an operating status of ERROR was sent; for a deletion, that not
    all nodes applied, and a provisioning status of ERROR.

    ``pending``: a change that Octavia may not have committed yet, which has
    no effect, see store/requests.py; null if there is none, else JSON
    ``{"request": uuid, "deadline": seconds since the epoch by the
    database's clock, "change": a Change (contracts/changes.py), "expected":
    the document with the change, or null for a deletion}``. A row of
    generation 0 is a pending creation: its ``document`` is the expected one,
    and it has no placements. ``unconfirmed``: objects for which the
    provisioning status ACTIVE has yet to be sent, a JSON list of
    ``[kind, id, generation]``. ``sent_statuses``: operating statuses that
    were last sent to Octavia, JSON ``{"kind id": status}``; null if none.
    ``replicas``: nodes that the flavor wants; null for ``[placement]
    replicas``. ``listed_at``: ``updated_at`` in Octavia's last list;
    ``compared_at``: its value when the document was compared with Octavia's,
    "sent" if only sent statuses have changed it since, null if a comparison
    is needed. ``zero_touch``: the flavor's, null for off.
    ``spread``: what the load balancer wants (``spec.spread``); null for
    ``[placement] spread``. ``needs_proxies``: whether proxy nodes serve a
    listener of the document (contracts/tiers.py).
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
    changed_at = sa.Column(Time, nullable=False)
    pending = sa.Column(Document, nullable=True)
    sent_statuses = sa.Column(Document, nullable=True)
    unconfirmed = sa.Column(Document, nullable=True)
    replicas = sa.Column(sa.Integer, nullable=True)
    listed_at = sa.Column(sa.String(64), nullable=True)
    compared_at = sa.Column(sa.String(64), nullable=True)
    zero_touch = sa.Column(sa.String(16), nullable=True, index=True)
    spread = sa.Column(sa.String(16), nullable=True)
    needs_proxies = sa.Column(sa.Boolean, nullable=False, default=False)


class Part(Base):
    """The load balancer of a pool, a listener or an L7 policy: changes of
    objects below these name nothing else."""

    __tablename__ = 'parts'
    id = sa.Column(sa.String(36), primary_key=True)
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        nullable=False, index=True)


class Node(Base):
    """An LB node or a proxy node that the operator has registered.

    ``last_seen``: seconds since the epoch; 0: never. ``in_service``: set by
    the operator. ``state``: the node's last reported state, JSON.
    ``condition``: the leader's judgement, a value of scheduler/cluster.py's
    Condition, or null if there is none yet; ``died_or_back_at``: when it was
    last found dead, or no longer dead, seconds since the epoch by the
    database's clock; null: never. ``report_epoch``, ``report_seq``: of the
    last accepted report, 0 before the first. ``complete``: whether that
    epoch has reported everything. ``draining``: set by the operator: the node
    is out of service, and routers should prefer others at once.
    ``nat_pools``: its NAT pools as registered by the operator, a JSON list;
    null for none. Reported pools only count if they lie in these. ``zone``:
    its availability zone as registered by the operator; null for none.
    ``role``: 'lb' or 'proxy' (rows.Role). ``proxy_addresses``: addresses that
    LB nodes reach a proxy node at, a JSON list with at most one of each
    family; null for LB nodes. ``public_key``: the registered key that secrets
    are sealed to; null for none.
    """

    __tablename__ = 'nodes'
    host = sa.Column(sa.String(255), primary_key=True)
    last_seen = sa.Column(Time, nullable=False)
    in_service = sa.Column(sa.Boolean, nullable=False, default=True)
    state = sa.Column(Document, nullable=False, default='{}')
    condition = sa.Column(sa.String(16), nullable=True)
    died_or_back_at = sa.Column(Time, nullable=True)
    report_epoch = sa.Column(sa.BigInteger, nullable=False, default=0)
    report_seq = sa.Column(sa.BigInteger, nullable=False, default=0)
    complete = sa.Column(sa.Boolean, nullable=False, default=False)
    draining = sa.Column(sa.Boolean, nullable=False, default=False)
    nat_pools = sa.Column(sa.Text, nullable=True)
    zone = sa.Column(sa.String(255), nullable=True)
    role = sa.Column(sa.String(16), nullable=False, default='lb')
    proxy_addresses = sa.Column(sa.Text, nullable=True)
    public_key = sa.Column(sa.Text, nullable=True)


class Placement(Base):
    """A load balancer on a node.

    ``placed_generation``: the one in which it was placed, or 0.
    ``synced_generation``: the newest one that the node has processed, 0 if
    it does not have the load balancer. ``error``: why the node could not
    apply it. ``removed_generation``: not null if it must leave the node; the
    row is deleted when the node, as of that generation or later, no longer
    has it. ``replace``: true if another node must take over first (a
    failover). ``members``: states of monitored members by id, JSON; null: not
    reported. ``announced``: whether the node announces the VIPs; null: not
    reported. ``report_epoch``: of the report with these values. ``history``:
    which members took new flows earlier, as reported, JSON ``{pool id: [[at,
    {member id: earlier weight}, earlier slots]]}``, the newest first, seconds
    since the epoch by the database's clock; null: not reported.
    ``draining_since``: since when the node must announce the VIPs as a last
    resort, seconds since the epoch by the database's clock; null: not
    draining. ``withdrawn_since``: the same, since when it must not announce
    them at all, and only keep existing NAT flows. ``drain_generation``: of
    the last change of these two, or 0. ``role``: the node's.
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
    draining_since = sa.Column(Time, nullable=True)
    withdrawn_since = sa.Column(Time, nullable=True)
    drain_generation = sa.Column(sa.BigInteger, nullable=False, default=0)
    history = sa.Column(Document, nullable=True)
    role = sa.Column(sa.String(16), nullable=False, default='lb')
    # Nodes ask every few seconds whether any of them drains.
    __table_args__ = sa.Index('ix_placements_host_draining_since', host,
                              draining_since),


class Removal(Base):
    """Removals from failed nodes, for the budget that limits them.

    ``at``: seconds since the epoch. ``number``: of removals; negative if the
    operator has allowed this many more.
    """

    __tablename__ = 'removals'
    id = sa.Column(sa.Integer, primary_key=True)
    at = sa.Column(Time, nullable=False, index=True)
    number = sa.Column(sa.Integer, nullable=False)


class ListenerCounter(Base):
    """A node's counters of a listener, and totals that never decrease.

    ``last_*``: last reported values; they restart at 0 when the service is
    created again. ``total_*``: everything that the node ever counted.
    ``active``: number of live flows in the last report, not a counter.
    ``counts``: whether the node is of the tier that serves the listener, so
    that these are its figures. ``host``: '' for what the sums of nodes lack
    since the listener has moved to another tier (tier_counters.py).
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
    counts = sa.Column(sa.Boolean, nullable=False, default=True)


class Work(Base):
    """A load balancer in the work queue, see store/work.py.

    ``version``: grows with each mark, so that a mark during a claim is not
    lost. ``due_at``, ``claimed_until``: seconds since the epoch by the
    database's clock. ``failures``: number of consecutive steps that did not
    finish it.
    """

    __tablename__ = 'work'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    version = sa.Column(sa.BigInteger, nullable=False, default=1)
    due_at = sa.Column(Time, nullable=False, index=True)
    failures = sa.Column(sa.Integer, nullable=False, default=0)
    claimed_by = sa.Column(sa.String(255), nullable=True)
    claimed_until = sa.Column(Time, nullable=True)


class Lease(Base):
    """The owner of work that only one controller may do, see store/leases.py.

    ``token``: grows whenever the owner changes. ``expires_at``: seconds since
    the epoch by the database's clock.
    """

    __tablename__ = 'leases'
    name = sa.Column(sa.String(64), primary_key=True)
    owner = sa.Column(sa.String(255), nullable=False)
    token = sa.Column(sa.BigInteger, nullable=False)
    expires_at = sa.Column(Time, nullable=False)


class CanceledRequest(Base):
    """A request that its caller has canceled, which may arrive later.

    ``at``: seconds since the epoch, by the database's clock.
    """

    __tablename__ = 'canceled_requests'
    request_id = sa.Column(sa.String(64), primary_key=True)
    at = sa.Column(Time, nullable=False, index=True)


class AnsweredRequest(Base):
    """An accepted request, which has no effect if it is repeated.

    ``at``: seconds since the epoch, by the database's clock.
    """

    __tablename__ = 'answered_requests'
    request_id = sa.Column(sa.String(64), primary_key=True)
    load_balancer_id = sa.Column(sa.String(36), nullable=False)
    at = sa.Column(Time, nullable=False, index=True)


class Vip(Base):
    """An address that a load balancer has as a VIP, or would have.

    Several load balancers may have one while all but one are being deleted,
    and are on no node that may announce it.
    """

    __tablename__ = 'vips'
    address = sa.Column(sa.String(64), primary_key=True)
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        primary_key=True, index=True)


class MemberAddress(Base):
    """An address that packets or probes of a load balancer go to, or would.
    """

    __tablename__ = 'member_addresses'
    address = sa.Column(sa.String(64), primary_key=True)
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        primary_key=True, index=True)


class Bundle(Base):
    """A tenant's certificate with its key, or the like, as ciphertext.

    ``name``: the one that documents have; ``kind``: bundle.Kind's value.
    ``expires_at``: when the first certificate or list in it ends; of keys of
    tickets, when they are to be replaced. Seconds since the epoch, null for
    never.
    """

    __tablename__ = 'bundles'
    load_balancer_id = sa.Column(
        sa.String(36),
        sa.ForeignKey('load_balancers.id', ondelete='CASCADE'),
        primary_key=True)
    name = sa.Column(sa.String(64), primary_key=True, index=True)
    kind = sa.Column(sa.String(16), nullable=False)
    ciphertext = sa.Column(Document, nullable=False)
    expires_at = sa.Column(Time, nullable=True)


class Usage(Base):
    """The needs of a load balancer on each of its nodes, and its size.

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
    """A load balancer that was deleted, or is unknown and to be deleted.

    ``pending``: as in LoadBalancer, null if there is none. ``at``: time of
    the deletion, seconds since the epoch by the database's clock.
    """

    __tablename__ = 'tombstones'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    pending = sa.Column(Document, nullable=True)
    at = sa.Column(Time, nullable=False, index=True)


class Miss(Base):
    """A load balancer that was missing in Octavia's list.

    ``number``: of consecutive lists without it; ``first_at``: time of the
    first of them, seconds since the epoch by the database's clock.
    """

    __tablename__ = 'misses'
    load_balancer_id = sa.Column(sa.String(36), primary_key=True)
    number = sa.Column(sa.Integer, nullable=False)
    first_at = sa.Column(Time, nullable=False)


class Hypervisor(Base):
    """A hypervisor that the operator has registered.

    ``host``: its name in Neutron. ``last_seen``: seconds since the epoch by
    the database's clock; 0: never. ``in_service``: set by the operator.
    ``state``: the agent's last reported state, JSON. ``report_epoch``,
    ``report_seq``, ``complete``: as in Node. ``reported_generation``: grows
    when a report changes anything that the leader may wait for.
    """

    __tablename__ = 'hypervisors'
    host = sa.Column(sa.String(255), primary_key=True)
    last_seen = sa.Column(Time, nullable=False, default=0)
    in_service = sa.Column(sa.Boolean, nullable=False, default=True)
    state = sa.Column(Document, nullable=False, default='{}')
    report_epoch = sa.Column(sa.BigInteger, nullable=False, default=0)
    report_seq = sa.Column(sa.BigInteger, nullable=False, default=0)
    complete = sa.Column(sa.Boolean, nullable=False, default=False)
    reported_generation = sa.Column(sa.BigInteger, nullable=False, default=0)


class HostObject(Base):
    """A port or an address set that a hypervisor should have.

    ``generation``: of the document. ``removed_generation``: not null if it
    must be removed; the row is deleted when the agent, as of that generation
    or later, no longer has it. The others are as reported by the agent:
    ``held_generation``: 0 if it does not have the object; ``counters``: JSON.
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

    ``entry``: of the port's document, JSON; it stays there until LB nodes
    have stopped using the key. ``unused_generation``: not null if the load
    balancer's document no longer uses the key as of this generation.
    ``free_at``: not null once the entry was removed from the hypervisor: the
    key must not be reused before this time, seconds since the epoch by the
    database's clock.
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
    free_at = sa.Column(Time, nullable=True)


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
