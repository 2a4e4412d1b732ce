# SPDX-License-Identifier: Apache-2.0
"""Which nodes' counters are the figures of a listener.

Proxy nodes and LB nodes both count a listener that proxy nodes serve. Octavia
is sent what proxy nodes count of it, and what LB nodes count of others. When a
listener moves to the other tier, the difference of both sums is stored in a
row without a node, so that the listener's sums do not change.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import orm

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows

# The host of rows without a node.
NO_NODE = ''

# The largest value of a column. A node that resets its counters again and
# again could exceed it.
TOTAL_MAX = 2 ** 63 - 1

_TOTALS = ('total_bytes', 'total_flows', 'total_drops', 'total_bytes_out')


def counts(document: spec.Document, listener_id: str, role: str) -> bool:
    """Return whether a listener's figures are those of nodes of a role."""
    is_proxied = tiers.tier(document, listener_id) == tiers.PROXY
    return is_proxied == (role == rows.PROXY)


def move(session: orm.Session, before: spec.Document | None,
         after: spec.Document) -> None:
    """Let nodes of the other tier count listeners that a change moves."""
    if before is None:
        return
    for key in before['listeners'].keys() & after['listeners'].keys():
        if tiers.tier(before, key) != tiers.tier(after, key):
            _move(session, after['id'], key)


def _move(session: orm.Session, load_balancer_id: str, listener_id: str
          ) -> None:
    stored = session.query(models.ListenerCounter).filter_by(
        listener_id=listener_id).all()
    own: list[Any] = [row for row in stored if row.host != NO_NODE]
    if not own:
        return
    difference = next((row for row in stored if row.host == NO_NODE), None)
    if difference is None:
        difference = row_of(load_balancer_id, listener_id, NO_NODE, True)
        session.add(difference)
    for name in _TOTALS:
        lacking = (getattr(difference, name) + _sum(own, name, True)
                   - _sum(own, name, False))
        # Nodes that report nonsense must not prevent the change.
        setattr(difference, name, max(-TOTAL_MAX, min(TOTAL_MAX, lacking)))
    for row in own:
        row.counts = not row.counts


def _sum(counters: Iterable[Any], name: str, counting: bool) -> int:
    return sum(getattr(row, name) for row in counters
               if row.counts is counting)


def row_of(load_balancer_id: str, listener_id: str, host: str, counting: bool
           ) -> Any:
    """Return a new row of a node that has not counted anything."""
    return models.ListenerCounter(
        listener_id=listener_id, host=host, last_bytes=0, last_flows=0,
        last_drops=0, last_bytes_out=0, total_bytes=0, total_flows=0,
        total_drops=0, total_bytes_out=0, active=0, counts=counting,
        load_balancer_id=load_balancer_id)
