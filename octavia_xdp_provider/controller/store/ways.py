# SPDX-License-Identifier: Apache-2.0
"""How members are reached: keys and documents of hypervisors.

Only the leader writes these rows, under its lease; reports of agents have
separate columns (host_reports.py).
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import hypervisors
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.store import models

_BALANCERS = models.LoadBalancer.__table__
_KEYS = models.HostKey.__table__
_OBJECTS = models.HostObject.__table__
_PLACEMENTS = models.Placement.__table__
_SEQUENCE = models.Sequence.__table__
_NODES = models.Node.__table__
_WAYS = models.MemberWay.__table__


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of a hypervisor; see models.py. ``entry``: host_spec.Entry."""

    host: str
    key: int
    port_id: str
    load_balancer_id: str
    listener_id: str
    member_id: str
    entry: dict[str, Any]
    unused_generation: int | None = None
    free_at: float | None = None

    @property
    def name(self) -> tuple[str, int]:
        return self.host, self.key

    @property
    def vip(self) -> str:
        return str(self.entry['vip'])

    @property
    def is_of_proxies(self) -> bool:
        """Whether ``vip`` is a token, and ``listener_id`` a pool's id."""
        return 'judged_as' in self.entry


def _keys_of(port_id: str) -> Any:
    """Select the keys of a port that are in use."""
    return sa.select(_KEYS).where(_KEYS.c.port_id == port_id,
                                  _KEYS.c.free_at.is_(None))


def _use(row: Any) -> tuple[str, str, str, str]:
    """Return the use of a key, independently of the member's hypervisor."""
    return (row.load_balancer_id, row.listener_id, row.member_id,
            json.loads(row.entry)['vip'])


@dataclasses.dataclass(frozen=True)
class Way:
    """How a member is reached; see models.py."""

    load_balancer_id: str
    member_id: str
    way: str
    host: str | None = None
    port_id: str | None = None
    reason: str = ''


@dataclasses.dataclass
class Changes:
    """What one step of the leader stores in one transaction.

    ``keys``: complete rows by (host, key); None deletes the row.
    ``documents``: (host, id) → (kind, document); None removes it from the
    hypervisor. ``ways``: complete lists by load balancer id.
    """

    keys: dict[tuple[str, int], Key | None] = dataclasses.field(
        default_factory=dict)
    documents: dict[tuple[str, str], tuple[str, dict[str, Any]] | None] = (
        dataclasses.field(default_factory=dict))
    ways: dict[str, list[Way]] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.keys or self.documents or self.ways)


class Ways(base.Queries):
    """Queries of the leader about hypervisors."""

    def zero_touch_changes(self, since: int
                           ) -> tuple[int, dict[str, int | None]]:
        """Return load balancers with zero_touch that have changed.

        :param since: generation up to which the caller knows all of them.
        :returns: the current generation, and id → generation, None if the
            load balancer is deleted.
        """
        with self._database.read_rows() as rows:
            as_of = int(rows.execute(sa.select(_SEQUENCE.c.value)
                                     ).scalar_one())
            if as_of == since:
                return as_of, {}
            return as_of, {
                row.id: None if row.deleted else int(row.generation)
                for row in rows.execute(sa.select(
                    _BALANCERS.c.id, _BALANCERS.c.generation,
                    _BALANCERS.c.deleted).where(
                        _BALANCERS.c.zero_touch.is_not(None),
                        _BALANCERS.c.generation > since))}

    def host_keys(self) -> list[Key]:
        with self._database.read_rows() as rows:
            return [Key(
                row.host, int(row.key), row.port_id, row.load_balancer_id,
                row.listener_id, row.member_id, json.loads(row.entry),
                row.unused_generation, row.free_at)
                for row in rows.execute(sa.select(_KEYS))]

    def flow_targets(self, host: str, port_id: str
                     ) -> dict[str, dict[int, int]]:
        """Return where flows of a hypervisor's port may be sent: other
        hypervisors that have applied the port → {key here: key there} for the
        same VIP, listener and member. Empty if there is none yet."""
        with self._database.read_rows() as rows:
            here = {_use(row): int(row.key) for row in rows.execute(
                _keys_of(port_id).where(_KEYS.c.host == host))}
            targets: dict[str, dict[int, int]] = {}
            if not here:
                return targets
            for row in rows.execute(sa.select(_OBJECTS.c.host).where(
                    _OBJECTS.c.id == port_id, _OBJECTS.c.host != host,
                    _OBJECTS.c.kind == host_spec.PORT,
                    _OBJECTS.c.removed_generation.is_(None),
                    _OBJECTS.c.error.is_(None),
                    _OBJECTS.c.held_generation >= _OBJECTS.c.generation)):
                targets[row.host] = {}
            for row in rows.execute(_keys_of(port_id).where(
                    _KEYS.c.host.in_(list(targets)))):
                if (name := _use(row)) in here:
                    targets[row.host][here[name]] = int(row.key)
            return targets

    def synced_generations(self, load_balancer_ids: Iterable[str],
                           conditions: Iterable[str]) -> dict[str, int]:
        """Return, by load balancer, the generation that all its nodes in one
        of these conditions have processed, including nodes that it leaves.
        Load balancers on no such node are left out."""
        generations: dict[str, int] = {}
        with self._database.read_rows() as rows:
            for ids in base.chunks(load_balancer_ids):
                for row in rows.execute(sa.select(
                        _PLACEMENTS.c.load_balancer_id,
                        sa.func.min(_PLACEMENTS.c.synced_generation).label(
                            'least')).join(
                                _NODES, _NODES.c.host == _PLACEMENTS.c.host
                        ).where(
                            _PLACEMENTS.c.load_balancer_id.in_(ids),
                            # A node that never had it uses no key.
                            _PLACEMENTS.c.synced_generation > 0,
                            _NODES.c.condition.in_(list(conditions))
                        ).group_by(_PLACEMENTS.c.load_balancer_id)):
                    generations[row.load_balancer_id] = int(row.least)
        return generations

    def select(self, load_balancer_id: str | None = None) -> list[Way]:
        query = sa.select(_WAYS)
        if load_balancer_id is not None:
            query = query.where(_WAYS.c.load_balancer_id == load_balancer_id)
        with self._database.read_rows() as rows:
            return [Way(row.load_balancer_id, row.member_id, row.way,
                        row.host, row.port_id, row.reason)
                    for row in rows.execute(query)]

    @base.retried
    def store(self, changes: Changes, lease: str, token: int
              ) -> list[hypervisors.HostObject]:
        """Store the leader's decisions.

        :returns: the changed documents, as stored.
        :raises LeaseLost: another controller leads; nothing was stored.
        """
        with self._database.write_rows() as rows:
            generation = base.next_generation(rows)
            leases.check(rows, lease, token)
            _store_keys(rows, changes.keys)
            for key, ways in changes.ways.items():
                rows.execute(sa.delete(_WAYS).where(
                    _WAYS.c.load_balancer_id == key))
                if ways:
                    rows.execute(sa.insert(_WAYS), [
                        dataclasses.asdict(way) for way in ways])
            return [_store_document(rows, host, key, wanted, generation)
                    for (host, key), wanted
                    in sorted(changes.documents.items())]


def _store_keys(rows: sa.Connection, keys: Mapping[tuple[str, int], Key | None]
                ) -> None:
    for (host, number), key in sorted(keys.items(), key=lambda item: item[0]):
        rows.execute(sa.delete(_KEYS).where(
            _KEYS.c.host == host, _KEYS.c.key == number))
        if key is not None:
            rows.execute(sa.insert(_KEYS).values({
                **dataclasses.asdict(key),
                'entry': json.dumps(key.entry, sort_keys=True)}))


def _store_document(rows: sa.Connection, host: str, key: str,
                    wanted: tuple[str, dict[str, Any]] | None,
                    generation: int) -> hypervisors.HostObject:
    where = (_OBJECTS.c.host == host, _OBJECTS.c.id == key)
    if wanted is None:
        rows.execute(sa.update(_OBJECTS).where(
            *where, _OBJECTS.c.removed_generation.is_(None)).values(
                removed_generation=generation))
        return hypervisors.HostObject(host, key, '', {}, 0, generation)
    kind, document = wanted
    values = {'kind': kind, 'generation': generation,
              'document': json.dumps(document, sort_keys=True),
              'removed_generation': None}
    if not rows.execute(sa.update(_OBJECTS).where(*where).values(
            values)).rowcount:
        rows.execute(sa.insert(_OBJECTS).values(
            host=host, id=key, held_generation=0, report_epoch=0,
            **values))
    return hypervisors.HostObject(host, key, kind, document, generation)
