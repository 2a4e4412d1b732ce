# SPDX-License-Identifier: Apache-2.0
"""Which members of pools took new flows earlier, as nodes report it.

A history is only stored with the node's report of a placement: it draws no
generation, and does not mark the load balancer.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import json
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.process import ages


class Reported(NamedTuple):
    """Nodes' histories of one load balancer.

    ``members``: ids of members by pool id. ``changes``: for each live node but
    the asking one, by pool id, its changes: (age, members, slots), the newest
    first.
    """

    members: Mapping[str, set[str]]
    changes: list[dict[str, list[tuple[int, dict[str, int], int]]]]


class Histories(base.Queries):
    """Stores and finds histories of pools."""

    def of_others(self, host: str, after: str | None, silent: str,
                  only: Iterable[str] | None = None,
                  limit: int = history.PAGE
                  ) -> tuple[dict[str, Reported], str | None]:
        """Return other nodes' histories of a node's load balancers.

        :param after: the id that was returned with the previous page.
        :param silent: condition (models.Node) of nodes to be ignored.
        :param only: ids of the load balancers that are asked for; None: all.
        :returns: by id, and the id after which the next page begins, or None.
        """
        with self._database.read_rows() as opened:
            now = base.now(opened)
            wanted = {'host': host, 'after': after or '', 'limit': limit}
            ids = list((opened.execute(_WITH_ONE, wanted) if only is None
                        else opened.execute(_WITH_ONE_OF, {
                            **wanted, 'ids': list(only)})).scalars())
            reported: dict[str, list[Any]] = {key: [] for key in ids}
            for row in opened.execute(_REPORTED, {
                    'host': host, 'ids': ids, 'silent': silent}):
                reported[row.load_balancer_id].append(
                    _aged(row.history, now) if row.history else {})
            return ({row.id: Reported(
                _members(row.document), reported[row.id])
                     for row in opened.execute(_DOCUMENTS, {'ids': ids})},
                    ids[-1] if len(ids) == limit else None)


def to_store(opened: sa.Connection, report: messages.Report) -> dict[str, str]:
    """Return JSON with the database's times, by load balancer id."""
    by_id = {key: held['history'] for key, held in report['held'].items()
             if held.get('history')}
    if not by_id:
        return {}
    now, clock = base.now(opened), report['clock']
    return {key: json.dumps({
        pool_id: [(now - ages.age(change['at'], clock),
                   change['members'], change['slots'],
                   change.get('removed', []))
                  for change in changes]
        for pool_id, changes in pools.items()}, sort_keys=True)
        for key, pools in by_id.items()}


def _aged(text: str, now: float) -> dict[str, Any]:
    return {pool_id: [(int(ages.age(at, now)), *change)
                      for at, *change in changes]
            for pool_id, changes in json.loads(text).items()}


def _members(text: str) -> dict[str, set[str]]:
    return {pool_id: set(pool['members'])
            for pool_id, pool in rows.parsed(text)['pools'].items()}


# Statements that are built once, see base.py.

_BALANCERS = models.LoadBalancer.__table__
_PLACEMENTS = models.Placement.__table__
_OTHERS = _PLACEMENTS.alias()
_NODES = models.Node.__table__
_HOST: Any = sa.bindparam('host')
_IDS: Any = sa.bindparam('ids', expanding=True)

_WITH_ONE = sa.select(_PLACEMENTS.c.load_balancer_id).where(
    _PLACEMENTS.c.host == _HOST,
    _PLACEMENTS.c.removed_generation.is_(None),
    _PLACEMENTS.c.load_balancer_id > sa.bindparam('after'),
    sa.exists().where(
        _OTHERS.c.load_balancer_id == _PLACEMENTS.c.load_balancer_id,
        _OTHERS.c.host != _HOST, _OTHERS.c.history.is_not(None))).order_by(
            _PLACEMENTS.c.load_balancer_id).limit(
                sa.bindparam('limit', type_=sa.Integer()))
_WITH_ONE_OF = _WITH_ONE.where(_PLACEMENTS.c.load_balancer_id.in_(_IDS))
_REPORTED = sa.select(
    _PLACEMENTS.c.load_balancer_id, _PLACEMENTS.c.history).join(
        _NODES, _NODES.c.host == _PLACEMENTS.c.host).where(
            _PLACEMENTS.c.load_balancer_id.in_(_IDS),
            _PLACEMENTS.c.host != _HOST,
            _PLACEMENTS.c.synced_generation > 0,
            sa.func.coalesce(_NODES.c.condition, '')
            != sa.bindparam('silent')).order_by(_PLACEMENTS.c.host)
_DOCUMENTS = sa.select(_BALANCERS.c.id, _BALANCERS.c.document).where(
    _BALANCERS.c.id.in_(_IDS))
