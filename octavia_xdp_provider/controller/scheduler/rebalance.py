# SPDX-License-Identifier: Apache-2.0
"""Moves that only even out the load, one at a time.

A move begins with an addition: the load balancer has one node more than
wanted until that node has applied it, and then decision.py takes it from the
node with the most load. The placements thus show which moves are under way.
"""

import dataclasses

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.store import rows

# A difference of one cannot be reduced, and less than a tenth is not worth
# moving flows.
DIFFERENCE_MIN = 2
DIFFERENCE_SHARE = 0.1

# Load balancers that are examined in search of one that may be moved.
MOVABLE_MAX = 20


def extremes(cluster):
    """Return the fullest and the emptiest live node.

    :returns: two cluster.Hosts, or None if the load is even enough or there
        are fewer than two live nodes.
    """
    hosts = cluster.hosts
    names = names_of_extremes(
        {name: host.load_balancers for name, host in hosts.items()},
        {name: host.condition for name, host in hosts.items()})
    return names and (hosts[names[0]], hosts[names[1]])


def names_of_extremes(load, conditions):
    """Return what extremes() does, by name and without the nodes' reports.

    :param load: host → number of load balancers; 0 if left out.
    :param conditions: host → Condition.
    """
    live = sorted((load.get(name, 0), name) for name, condition
                  in conditions.items()
                  if condition is clusters.Condition.LIVE)
    if len(live) < 2:
        return None
    (least, emptiest), (most, fullest) = live[0], live[-1]
    difference = most - least
    if difference < DIFFERENCE_MIN or difference < DIFFERENCE_SHARE * most:
        return None
    return fullest, emptiest


def move(decider, movable, target):
    """Return the first Move to a node that no filter refuses, or None.

    :param movable: pairs (load balancer, the hosts that it is on).
    """
    for balancer, hosts in movable:
        if decider.refusal(target, balancer.document) is None:
            return decision.Move(balancer.id, frozenset(hosts),
                                 (target.name,))
    return None


@dataclasses.dataclass(frozen=True)
class Step:
    """A move of a plan; ``sources``: the nodes that it leaves."""

    load_balancer_id: str
    sources: tuple
    target: str


def plan(decider, balancers, placements):
    """Yield a Step for each move until the load is even.

    The plan assumes that nothing else changes meanwhile. Nothing is stored,
    but the decider's cluster is changed.

    :param decider: a Decider with a drain time of 0.
    :param balancers: id → rows.LoadBalancer.
    :param placements: id → rows.Placements that are not being removed.
    """
    placements = {key: list(rows_of_key)
                  for key, rows_of_key in placements.items()}
    # Each move reduces a difference, but filters and weighers are plugins
    # that may prevent that, so the number of moves is bounded.
    for _ in range(len(balancers)):
        extreme_hosts = extremes(decider.cluster)
        if extreme_hosts is None:
            return
        fullest, emptiest = extreme_hosts
        candidates = _movable(decider, balancers, placements, fullest.name,
                              emptiest.name)
        moved = move(decider, candidates, emptiest)
        if moved is None:
            return
        balancer = balancers[moved.load_balancer_id]
        placed = placements[balancer.id]
        placed.append(rows.Placement(
            balancer.id, emptiest.name, balancer.generation, None, None,
            announced=all(row.announced is not False for row in placed)))
        decider.cluster.add(emptiest.name,
                            filters.services(balancer.document))
        follow_up = decider.decide(balancer, placed)
        sources = tuple(follow_up.remove) if follow_up else ()
        placements[balancer.id] = [row for row in placed
                                   if row.host not in sources]
        yield Step(balancer.id, sources, emptiest.name)


def _movable(decider, balancers, placements, source, target):
    """Return what the store's movable() does, for a plan's placements."""
    movable = []
    for key in sorted(balancers):
        placed, balancer = placements.get(key, ()), balancers[key]
        hosts = [row.host for row in placed]
        if (source in hosts and target not in hosts
                and len(hosts) == decider.wanted(balancer)
                and all(not row.error and row.synced_generation
                        >= balancer.generation for row in placed)):
            movable.append((balancer, hosts))
            if len(movable) == MOVABLE_MAX:
                break
    return movable
