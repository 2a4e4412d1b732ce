# SPDX-License-Identifier: Apache-2.0
"""Hypervisors: their registration and wanted state.

An answer to a hypervisor contains only its own objects: every query is
restricted to its host. Pages are like those of LB nodes (deltas.py).
"""

from collections.abc import Iterable
import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models

# Seconds within which another sign of life is not stored.
SEEN_S = 3.0

_HOSTS = models.Hypervisor.__table__
_OBJECTS = models.HostObject.__table__
_SEQUENCE = models.Sequence.__table__


@dataclasses.dataclass(frozen=True)
class Hypervisor:
    """``last_seen``: seconds since the epoch; 0: never. ``state``:
    host_messages.HostState. For the rest see models.py."""

    host: str
    last_seen: float
    in_service: bool
    state: dict[str, Any]
    complete: bool = False
    reported_generation: int = 0


@dataclasses.dataclass(frozen=True)
class HostObject:
    """Wanted and reported state of a hypervisor's object; see models.py."""

    host: str
    id: str
    kind: str
    document: dict[str, Any]
    generation: int
    removed_generation: int | None = None
    held_generation: int = 0
    ifindex: int | None = None
    error: str | None = None
    counters: dict[str, Any] | None = None

    @property
    def is_held(self) -> bool:
        return (self.held_generation >= self.generation and not self.error
                and self.removed_generation is None)


def unregistered(host: str) -> errors.Refused:
    return errors.Refused('host', f'hypervisor {host} is not registered',
                          'say "octavia-xdp-manage host create" for it')


def _object(row: Any) -> HostObject:
    return HostObject(
        row.host, row.id, row.kind, json.loads(row.document), row.generation,
        row.removed_generation, row.held_generation, row.ifindex, row.error,
        json.loads(row.counters) if row.counters else None)


class Hypervisors(base.Queries):
    """Queries about hypervisors and of their agents."""

    def hosts(self) -> list[str]:
        with self._database.read_rows() as rows:
            return list(rows.execute(sa.select(_HOSTS.c.host)).scalars())

    def all(self) -> list[Hypervisor]:
        with self._database.read_rows() as rows:
            return [Hypervisor(
                row.host, row.last_seen, row.in_service,
                json.loads(row.state), row.complete, row.reported_generation)
                for row in rows.execute(sa.select(_HOSTS))]

    @base.retried
    def register(self, host: str) -> bool:
        """Register a hypervisor, and return whether it is new."""
        with self._database.write() as session:
            if session.get(models.Hypervisor, host) is not None:
                return False
            session.add(models.Hypervisor(host=host, last_seen=0,
                                          in_service=True, state='{}'))
            return True

    @base.retried
    def remove(self, host: str) -> bool:
        """Remove a hypervisor, and return whether it was known.

        Its keys stay reserved until no LB node uses them.
        """
        with self._database.write() as session:
            session.query(models.HostObject).filter_by(host=host).delete()
            return bool(session.query(models.Hypervisor).filter_by(
                host=host).delete())

    @base.retried
    def set_in_service(self, host: str, in_service: bool) -> bool:
        """Set a hypervisor in or out of service; return False if unknown."""
        with self._database.write() as session:
            return bool(session.query(models.Hypervisor).filter_by(
                host=host).update({'in_service': in_service}))

    @base.retried
    def heartbeat(self, host: str) -> None:
        """Store a sign of life of the agent."""
        with self._database.write_rows() as rows:
            now = base.now(rows)
            rows.execute(sa.update(_HOSTS).where(
                _HOSTS.c.host == host,
                # Also after the clock was set back.
                (_HOSTS.c.last_seen < now - SEEN_S)
                | (_HOSTS.c.last_seen > now + SEEN_S)).values(last_seen=now))

    def objects(self, hosts: Iterable[str] | None = None) -> list[HostObject]:
        """Return all or some hypervisors' objects, even if to be removed."""
        query = sa.select(_OBJECTS)
        if hosts is not None:
            query = query.where(_OBJECTS.c.host.in_(list(hosts)))
        with self._database.read_rows() as rows:
            return [_object(row) for row in rows.execute(query)]

    def changes(self, host: str, since: int, after: str | None = None,
                limit: int = host_messages.DOCUMENTS_PAGE) -> dict[str, Any]:
        """Return the changes of a hypervisor's wanted state since a
        generation: the fields of host_messages.FetchAnswer from the database.

        :raises Refused: the hypervisor is not registered.
        """
        with self._database.read_rows() as rows:
            as_of = _host_as_of(rows, host)
            answer: dict[str, Any] = {
                'as_of': as_of, 'changed': [], 'removed': [], 'more': None,
                'compare': since > as_of}
            if since == as_of:
                return answer
            if after is None:
                removed = list(rows.execute(sa.select(_OBJECTS.c.id).where(
                    _OBJECTS.c.host == host,
                    _OBJECTS.c.removed_generation > since).order_by(
                        _OBJECTS.c.id)).scalars())
                answer['removed'] = removed[:host_messages.COMPARE_PAGE]
                answer['compare'] |= removed != answer['removed']
            answer['changed'], answer['more'] = _page(rows.execute(
                _wanted(host, after).where(
                    _OBJECTS.c.generation > since).limit(limit + 1)), limit)
        return answer

    def generations(self, host: str, after: str | None = None,
                    limit: int = host_messages.COMPARE_PAGE
                    ) -> host_messages.CompareAnswer:
        """:raises Refused: the hypervisor is not registered."""
        with self._database.read_rows() as rows:
            as_of = _host_as_of(rows, host)
            wanted = {row.id: int(row.generation) for row in rows.execute(
                _wanted(host, after).limit(limit))}
            return {'as_of': as_of, 'generations': wanted,
                    'more': max(wanted) if len(wanted) == limit else None}

    def documents(self, host: str, ids: Iterable[str],
                  limit: int = host_messages.DOCUMENTS_PAGE
                  ) -> list[host_messages.Entry]:
        """:raises Refused: the hypervisor is not registered."""
        with self._database.read_rows() as rows:
            _host_as_of(rows, host)
            return _page(rows.execute(_wanted(host, None).where(
                _OBJECTS.c.id.in_(list(ids))).limit(limit + 1)), limit)[0]


def _host_as_of(rows: sa.Connection, host: str) -> int:
    registered = rows.execute(sa.select(_HOSTS.c.host).where(
        _HOSTS.c.host == host)).first()
    if registered is None:
        raise unregistered(host)
    return int(rows.execute(sa.select(_SEQUENCE.c.value).where(
        _SEQUENCE.c.id == 1)).scalar_one())


def _wanted(host: str, after: str | None) -> Any:
    query = sa.select(_OBJECTS).where(
        _OBJECTS.c.host == host, _OBJECTS.c.removed_generation.is_(None))
    if after is not None:
        query = query.where(_OBJECTS.c.id > after)
    return query.order_by(_OBJECTS.c.id)


def _page(selected: Iterable[Any], limit: int
          ) -> tuple[list[host_messages.Entry], str | None]:
    """Return a page and where the next begins, like _page in deltas.py."""
    page: list[host_messages.Entry] = []
    size = 0
    for row in selected:
        size += len(row.document)
        if len(page) == limit or (
                page and size > host_messages.DOCUMENTS_PAGE_BYTES):
            return page, page[-1]['id']
        page.append({'id': row.id, 'kind': row.kind,
                     'generation': row.generation,
                     'document': json.loads(row.document)})
    return page, None
