# SPDX-License-Identifier: Apache-2.0
"""Listeners that move to the other tier keep the connections that they have.

A change of a pool may move a listener of TCP or HTTPS from members to proxy
nodes, or back (contracts/tiers.py). ``moved`` of the document has the pool
that LB nodes sent its connections to before. They keep its members without
new connections (contracts/views.py), as a member that drains.

Connections of load balancers with forwarding nat end: they are flows of NAT,
which the other tier does not have.
"""

from typing import Any
from typing import cast

from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.process import ages

# Seconds after which a change of the document drops what has moved.
KEEP_S = 86400.0


def concerns(before: spec.Document, after: spec.Document) -> bool:
    """Return whether ``note`` may change a document."""
    return 'moved' in before or bool(_moving(before, after))


def note(before: spec.Document, after: spec.Document, now: float
         ) -> spec.Document:
    """Return a changed document with what has moved.

    :param now: seconds since the epoch, by the database's clock.
    """
    moved = {key: entry for key, entry in before.get('moved', {}).items()
             if key in after['listeners']
             and ages.left(entry['at'], KEEP_S, now)}
    view = views.for_lb_node(before)
    for key in _moving(before, after):
        moved.pop(key, None)
        served = view['listeners'].get(key)
        pool = served and view['pools'].get(served['default_pool_id'] or '')
        if pool:
            moved[key] = {'at': now, 'pool': {**pool, 'members': {
                member_id: member
                for member_id, member in pool['members'].items()
                if member['admin_state_up'] and not member.get('leaving')}}}
    result: Any = dict(after)
    result.pop('moved', None)
    if moved:
        result['moved'] = moved
    return cast(spec.Document, result)


def _moving(before: spec.Document, after: spec.Document) -> list[str]:
    if flavor.is_nat(after['flavor']):
        return []
    return sorted(
        key for key in before['listeners'].keys() & after['listeners'].keys()
        if tiers.tier(before, key) != tiers.tier(after, key))
