# SPDX-License-Identifier: Apache-2.0
"""The wanted state of a node, in pages.

A page is one transaction, and generations may be drawn between two pages. So
a node uses the ``as_of`` of the first page: later changes have a greater
generation, and are part of the next fetch.

LB nodes and proxy nodes are sent their view of a document (contracts/views.py)
by the role that the operator has registered them with.

A document that is too large for any message is left out, so that only its load
balancer gets the status of one that no node serves.
"""

from collections.abc import Iterable
import functools
from typing import Any

from oslo_log import log as logging
import sqlalchemy as sa

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows

LOG = logging.getLogger(__name__)

# Largest document in bytes that is read along with its row; larger ones are
# read one by one, if they fit into the page.
_INLINE_BYTES = 64 * 1024


class Deltas(base.Queries):
    """Queries of nodes for their wanted state."""

    def changes(self, host: str, since: int, after: str | None = None,
                limit: int = messages.DOCUMENTS_PAGE) -> messages.FetchAnswer:
        """Return the changes of a node's wanted state since a generation.

        :param since: the ``as_of`` of the node's last fetch; 0: none.
        :param after: the ``more`` of the previous page.
        """
        values = {'host': host, 'since': since}
        with self._database.read_rows() as rows:
            as_of, role, has_left = rows.execute(_STATE, values).one()
            answer: messages.FetchAnswer = {
                'as_of': as_of, 'changed': [], 'removed': [], 'more': None,
                'compare': since > as_of or role is None}
            if since == as_of:
                return answer
            if after is None and has_left:
                removed = list(rows.execute(_REMOVED, values).scalars())
                answer['removed'] = removed[:messages.COMPARE_PAGE]
                answer['compare'] |= removed != answer['removed']
            answer['changed'], answer['more'] = _page(rows, rows.execute(
                _CHANGED, {**values, 'after': after or '',
                           'limit': limit + 1}), limit, role)
        return answer

    def generations(self, host: str, after: str | None = None,
                    limit: int = messages.COMPARE_PAGE
                    ) -> messages.CompareAnswer:
        """Return the generations of everything a node should have."""
        with self._database.read() as session:
            held = {key: max(generation, drained) for key, generation, drained
                    in _held(session, models.LoadBalancer.id, host, after)
                    .add_columns(models.LoadBalancer.generation,
                                 models.Placement.drain_generation)
                    .limit(limit)}
            return {'as_of': _as_of(session), 'generations': held,
                    'more': max(held) if len(held) == limit else None}

    def documents(self, host: str, ids: Iterable[str],
                  limit: int = messages.DOCUMENTS_PAGE
                  ) -> list[messages.Entry]:
        """Return documents of a node's load balancers; only the first ones if
        there are too many for a message."""
        with self._database.read() as session:
            query = _held(session, models.LoadBalancer.id, host, None).filter(
                models.LoadBalancer.id.in_(list(ids))).add_columns(
                    _SIZE, _INLINE, models.LoadBalancer.generation,
                    models.Placement.draining_since,
                    models.Placement.withdrawn_since,
                    models.Placement.drain_generation)
            role = session.scalar(sa.select(models.Node.role).where(
                models.Node.host == host))
            return _page(base.connection(session), query.limit(limit + 1),
                         limit, role)[0]


def _as_of(session: Any) -> int:
    return int(session.get(models.Sequence, 1).value)


def _held(session: Any, column: Any, host: str, after: str | None) -> Any:
    """Select from what a node should have, ordered by id."""
    query = session.query(column).join(
        models.Placement, models.Placement.load_balancer_id ==
        models.LoadBalancer.id).filter(
            models.Placement.host == host,
            models.Placement.removed_generation.is_(None),
            models.LoadBalancer.deleted.is_(False))
    if after is not None:
        query = query.filter(models.LoadBalancer.id > after)
    return query.order_by(models.LoadBalancer.id)


def _page(opened: sa.Connection, selected: Iterable[Any], limit: int,
          role: str | None) -> tuple[list[messages.Entry], str | None]:
    """Return as many documents as fit into a message, and the id after which
    the next page begins, or None.

    :param selected: rows, one more than the limit if there are more.
    """
    page: list[messages.Entry] = []
    size, after = 0, None
    for number, row in enumerate(selected):
        if row.size > messages.DOCUMENT_BYTES_MAX:
            _log_too_large(row.id, row.generation, row.size)
            row_size = 0
        else:
            row_size = row.size
        size += row_size
        if number == limit or (page and size > messages.DOCUMENTS_PAGE_BYTES):
            return page, after
        after = row.id
        if row_size:
            page.append(_entry(opened, row, role))
    return page, None


def _entry(opened: sa.Connection, row: Any, role: str | None
           ) -> messages.Entry:
    text = row.inline
    if text is None:
        text = opened.execute(_DOCUMENT, {'key': row.id}).scalar_one()
    entry: messages.Entry = {
        'id': row.id, 'generation': max(row.generation, row.drain_generation),
        'document': _view(rows.parsed(text), role)}
    if row.draining_since is not None:
        entry['draining'] = True
    if row.withdrawn_since is not None:
        entry['withdrawn'] = True
    return entry


def _view(document: spec.Document, role: str | None) -> dict[str, Any]:
    if role == rows.PROXY:
        return dict(views.for_proxy(document))
    return dict(spec.for_node(views.for_lb_node(document)))


@functools.lru_cache(maxsize=1024)
def _log_too_large(key: str, generation: int, size: int) -> None:
    """Log an error once, and not for each node and fetch."""
    LOG.error('Load balancer %s has %s bytes in generation %s, and a message '
              'to nodes holds %s: it is not sent to them, and they keep '
              'its former state.', key, size, generation,
              messages.DOCUMENT_BYTES_MAX)


# Statements that are built once, see base.py.

_BALANCERS = models.LoadBalancer.__table__
_PLACEMENTS = models.Placement.__table__
_NODES = models.Node.__table__
_SEQUENCE = models.Sequence.__table__
_HOST: Any = sa.bindparam('host')
_SINCE: Any = sa.bindparam('since')

_IS_REMOVED = (_PLACEMENTS.c.host == _HOST,
               _PLACEMENTS.c.removed_generation > _SINCE)
_STATE = sa.select(
    _SEQUENCE.c.value,
    sa.select(_NODES.c.role).where(_NODES.c.host == _HOST).scalar_subquery(),
    sa.exists().where(*_IS_REMOVED)).where(_SEQUENCE.c.id == 1)
_REMOVED = sa.select(_PLACEMENTS.c.load_balancer_id).where(
    *_IS_REMOVED).order_by(_PLACEMENTS.c.load_balancer_id)
_SIZE: Any = sa.func.length(_BALANCERS.c.document).label('size')
_INLINE: Any = sa.case((sa.func.length(_BALANCERS.c.document) <= _INLINE_BYTES,
                        _BALANCERS.c.document)).label('inline')
_DOCUMENT = sa.select(_BALANCERS.c.document).where(
    _BALANCERS.c.id == sa.bindparam('key'))
_CHANGED = sa.select(
    _BALANCERS.c.id, _SIZE, _INLINE, _BALANCERS.c.generation,
    _PLACEMENTS.c.draining_since, _PLACEMENTS.c.withdrawn_since,
    _PLACEMENTS.c.drain_generation).join(
        _PLACEMENTS, _PLACEMENTS.c.load_balancer_id
        == _BALANCERS.c.id).where(
            _PLACEMENTS.c.host == _HOST,
            _PLACEMENTS.c.removed_generation.is_(None),
            _BALANCERS.c.deleted.is_(False),
            _BALANCERS.c.id > sa.bindparam('after'),
            (_BALANCERS.c.generation > _SINCE)
            | (_PLACEMENTS.c.placed_generation > _SINCE)
            | (_PLACEMENTS.c.drain_generation > _SINCE)).order_by(
                _BALANCERS.c.id).limit(sa.bindparam(
                    'limit', type_=sa.Integer()))
