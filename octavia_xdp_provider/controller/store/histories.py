# SPDX-License-Identifier: Apache-2.0
"""Which members of pools took new flows before, as nodes report it.

It is kept beside what else a node reports of a placement, and nowhere else: it
draws no generation, and nobody has to look at a load balancer for it.
"""

from collections.abc import Mapping
import json
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.common import history
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Told(NamedTuple):
    """What nodes say of one load balancer.

    ``members``: by id of the pool, ids of its members. ``words``: of each live
    node but the one that asks, by id of the pool, what it remembers: (age,
    members, slots) of each change, the newest first.
    """

    members: Mapping[str, set[str]]
    words: list[dict[str, list[tuple[int, dict[str, int], int]]]]


class Histories(base.Base):
    """Stores and finds histories of pools."""

    @classmethod
    def _to_store(cls, opened: Any, report: messages.Report
                  ) -> dict[str, str]:
        """By id of the load balancer, JSON, with the database's times."""
        found = {key: one['history'] for key, one in report['held'].items()
                 if one.get('history')}
        if not found:
            return {}
        now, clock = cls._now(opened), report['clock']
        return {key: json.dumps({
            pool_id: [(now - ages.age(change['at'], clock),
                       change['members'], change['slots'])
                      for change in changes]
            for pool_id, changes in pools.items()}, sort_keys=True)
            for key, pools in found.items()}

    def histories(self, host: str, after: str | None, silent: str,
                  limit: int = history.PAGE
                  ) -> tuple[dict[str, Told], str | None]:
        """What others say of the load balancers that a node should have.

        :param after: what was returned with the page before.
        :param silent: who has this condition (models.Node) has no say.
        :returns: by id, and after which id the next page begins, or None.
        """
        with self._reading_rows() as opened:
            now = self._now(opened)
            ids = list(opened.execute(_WITH_ONE, {
                'host': host, 'after': after or '',
                'limit': limit}).scalars())
            words: dict[str, list[Any]] = {key: [] for key in ids}
            for row in opened.execute(_SAID, {
                    'host': host, 'ids': ids, 'silent': silent}):
                words[row.load_balancer_id].append(
                    _aged(row.history, now) if row.history else {})
            return ({row.id: Told(_members(row.document), words[row.id])
                     for row in opened.execute(_DOCUMENTS, {'ids': ids})},
                    ids[-1] if len(ids) == limit else None)


def _aged(text: str, now: float) -> dict[str, Any]:
    return {pool_id: [(int(ages.age(at, now)), members, slots)
                      for at, members, slots in changes]
            for pool_id, changes in json.loads(text).items()}


def _members(text: str) -> dict[str, set[str]]:
    return {pool_id: set(pool['members'])
            for pool_id, pool in rows.parsed(text)['pools'].items()}


# Statements that are made once, see base.py.

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
_SAID = sa.select(
    _PLACEMENTS.c.load_balancer_id, _PLACEMENTS.c.history).join(
        _NODES, _NODES.c.host == _PLACEMENTS.c.host).where(
            _PLACEMENTS.c.load_balancer_id.in_(_IDS),
            _PLACEMENTS.c.host != _HOST,
            _PLACEMENTS.c.synced_generation > 0,
            sa.func.coalesce(_NODES.c.condition, '')
            != sa.bindparam('silent')).order_by(_PLACEMENTS.c.host)
_DOCUMENTS = sa.select(_BALANCERS.c.id, _BALANCERS.c.document).where(
    _BALANCERS.c.id.in_(_IDS))
