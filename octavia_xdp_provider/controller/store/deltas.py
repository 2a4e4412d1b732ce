# SPDX-License-Identifier: Apache-2.0
"""What a node should have, told in pages.

A page is one transaction, and generations may be drawn between two of them.
So a node takes the ``as_of`` of the first page: what changed later has a
greater generation, and is told again by the next fetch.
"""

from collections.abc import Iterable
from typing import Any

from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Deltas(base.Base):
    """Queries by which nodes find out what they should have."""

    def changes(self, host: str, since: int, after: str | None = None,
                limit: int = messages.DOCUMENTS_PAGE
                ) -> messages.FetchAnswer:
        """What a node should have otherwise than at a generation.

        :param since: the ``as_of`` of what the node fetched last; 0: it has
            nothing.
        :param after: the ``more`` of the page before.
        """
        with self._read() as session:
            as_of = _as_of(session)
            answer: messages.FetchAnswer = {
                'as_of': as_of, 'changed': [], 'removed': [], 'more': None,
                'compare': since > as_of or session.get(
                    models.Node, host) is None}
            if since == as_of:
                return answer
            if after is None:
                removed = sorted(
                    key for key, in session.query(
                        models.Placement.load_balancer_id).filter(
                            models.Placement.host == host,
                            models.Placement.removed_generation > since))
                answer['removed'] = removed[:messages.COMPARE_PAGE]
                answer['compare'] |= removed != answer['removed']
            query = _held(session, models.LoadBalancer, host, after).filter(
                (models.LoadBalancer.generation > since)
                | (models.Placement.placed_generation > since)
                | (models.Placement.drain_generation > since))
            answer['changed'], answer['more'] = _page(query, limit)
        return answer

    def generations(self, host: str, after: str | None = None,
                    limit: int = messages.COMPARE_PAGE
                    ) -> messages.CompareAnswer:
        """All that a node should have, without the documents."""
        with self._read() as session:
            found = {key: max(generation, drained) for key, generation, drained
                     in _held(session, models.LoadBalancer.id, host, after)
                     .add_columns(models.LoadBalancer.generation,
                                  models.Placement.drain_generation)
                     .limit(limit)}
            return {'as_of': _as_of(session), 'generations': found,
                    'more': max(found) if len(found) == limit else None}

    def documents(self, host: str, ids: Iterable[str],
                  limit: int = messages.DOCUMENTS_PAGE
                  ) -> list[messages.Entry]:
        """Documents of a node's load balancers; the first of them at least,
        where there are too many for a message."""
        with self._read() as session:
            query = _held(session, models.LoadBalancer, host, None).filter(
                models.LoadBalancer.id.in_(list(ids)))
            return _page(query, limit)[0]

    def fetch(self, host: str, known: dict[str, int]
              ) -> messages.FetchAnswerV1:
        """All that a node should have, in version 1 of the protocol.

        :param known: load balancer id → generation that the node holds.
        """
        with self._read() as session:
            generations, documents = {}, {}
            for row in _held(session, models.LoadBalancer, host, None):
                generations[row.id] = row.generation
                if known.get(row.id) != row.generation:
                    documents[row.id] = spec.for_node(rows.document(row))
            return {'as_of': _as_of(session), 'generations': generations,
                    'documents': documents}


def _as_of(session: Any) -> int:
    return int(session.get(models.Sequence, 1).value)


def _held(session: Any, what: Any, host: str, after: str | None) -> Any:
    """A query of what a node should have, in the order of ids."""
    query = session.query(what).join(
        models.Placement, models.Placement.load_balancer_id ==
        models.LoadBalancer.id).filter(
            models.Placement.host == host,
            models.Placement.removed_generation.is_(None),
            models.LoadBalancer.deleted.is_(False))
    if after is not None:
        query = query.filter(models.LoadBalancer.id > after)
    return query.order_by(models.LoadBalancer.id)


def _page(query: Any, limit: int
          ) -> tuple[list[messages.Entry], str | None]:
    """As many documents as a message may have, and where the next begins."""
    found: list[messages.Entry] = []
    size = 0
    query = query.add_columns(models.Placement.draining_since,
                              models.Placement.drain_generation)
    for row, draining_since, drain_generation in query.limit(limit + 1):
        size += len(row.document)
        if len(found) == limit or (
                found and size > messages.DOCUMENTS_PAGE_BYTES):
            return found, found[-1]['id']
        # Completed, if an older version of the controller wrote it, and in
        # the oldest version that nodes can do it by.
        found.append({'id': row.id,
                      'generation': max(row.generation, drain_generation),
                      'document': dict(spec.for_node(rows.document(row)))})
        if draining_since is not None:
            found[-1]['draining'] = True
    return found, None
