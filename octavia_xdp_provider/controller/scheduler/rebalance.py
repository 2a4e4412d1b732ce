# SPDX-License-Identifier: Apache-2.0
"""Moves that only even out the load, few at a time.

A move begins with an addition: the load balancer is on one node more than
wanted until that node has it, and then decision.py takes it from the node
with the most load. So what is under way is seen in the placements.
"""

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters

# A difference of one cannot be made smaller; less than a tenth is not worth
# moving anybody's flows.
DIFFERENCE_MIN = 2
DIFFERENCE_SHARE = 0.1


def moves(decider, balancers, placements_of, most):
    """At most so many moves from the fullest node to others.

    :param balancers: those that are not deleted.
    :param placements_of: id → placements that are not leaving.
    :param most: how many may be under way at once; 0: none.
    """
    under_way = sum(
        len(placements_of.get(balancer.id, ())) > decider.wanted(balancer)
        for balancer in balancers)
    result = []
    taken = set()
    while under_way + len(result) < most:
        move = _next(decider, balancers, placements_of, taken)
        if move is None:
            break
        taken.add(move.load_balancer_id)
        result.append(move)
    return result


def _next(decider, balancers, placements_of, taken):
    live = [host for host in decider.cluster.hosts.values()
            if host.condition is clusters.Condition.LIVE]
    if len(live) < 2:
        return None
    live.sort(key=lambda host: (host.load_balancers, host.name))
    emptiest, fullest = live[0], live[-1]
    difference = fullest.load_balancers - emptiest.load_balancers
    if (difference < DIFFERENCE_MIN or
            difference < DIFFERENCE_SHARE * fullest.load_balancers):
        return None
    for balancer in balancers:
        rows = {row.host: row for row in placements_of.get(balancer.id, ())}
        if (balancer.id in taken or fullest.name not in rows
                or emptiest.name in rows
                or len(rows) != decider.wanted(balancer)
                or not all(_is_done(row, balancer) for row in rows.values())
                or decider.refusal(emptiest, balancer.document)):
            continue
        decider.cluster.add(emptiest.name,
                            filters.services(balancer.document))
        # It leaves in a later pass, and is not to be counted until then.
        decider.cluster.remove(fullest.name)
        return decision.Move(balancer.id, frozenset(rows),
                             (emptiest.name,))
    return None


def _is_done(row, balancer):
    """One that is not done has a move of its own under way."""
    return not row.error and row.synced_generation >= balancer.generation
