# SPDX-License-Identifier: Apache-2.0
"""Moves that only even out the load, one at a time.

A move begins with an addition: the load balancer is on one node more than
wanted until that node has it, and then decision.py takes it from the node
with the most load. So what is under way is seen in the placements.
"""

import dataclasses

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.store import rows

# A difference of one cannot be made smaller; less than a tenth is not worth
# moving anybody's flows.
DIFFERENCE_MIN = 2
DIFFERENCE_SHARE = 0.1

# Load balancers that are looked at for one that may be moved.
MOVABLE_MAX = 20


def ends(cluster):
    """The fullest and the emptiest live node, or None.

    None: the load is even enough, or there are not two nodes.
    """
    hosts = cluster.hosts
    found = names_of_ends(
        {name: host.load_balancers for name, host in hosts.items()},
        {name: host.condition for name, host in hosts.items()})
    return found and (hosts[found[0]], hosts[found[1]])


def names_of_ends(load, conditions):
    """The same by name, which takes nothing that nodes report.

    :param load: host → load balancers; 0 if left out.
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
    """The first move to a node that no filter refuses, or None.

    :param movable: (load balancer, the hosts that it is on).
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
    """All moves until the load is even, one after the other.

    They follow from the nodes and placements as they are, if nothing else
    changes meanwhile. Nothing is stored; the decider's cluster is changed.

    :param decider: one that lets nodes drain for no time.
    :param balancers: rows.LoadBalancer by id.
    :param placements: id → rows.Placement of those that are not leaving.
    """
    placements = {key: list(some) for key, some in placements.items()}
    # Each makes a difference smaller; but filters and weighers are plugins.
    for _ in range(len(balancers)):
        found = ends(decider.cluster)
        if found is None:
            return
        fullest, emptiest = found
        candidates = _movable(decider, balancers, placements, fullest.name,
                              emptiest.name)
        moved = move(decider, candidates, emptiest)
        if moved is None:
            return
        balancer = balancers[moved.load_balancer_id]
        mine = placements[balancer.id]
        mine.append(rows.Placement(
            balancer.id, emptiest.name, balancer.generation, None, None,
            announced=all(row.announced is not False for row in mine)))
        decider.cluster.add(emptiest.name,
                            filters.services(balancer.document))
        decided = decider.decide(balancer, mine)
        left = tuple(decided.remove) if decided else ()
        placements[balancer.id] = [row for row in mine
                                   if row.host not in left]
        yield Step(balancer.id, left, emptiest.name)


def _movable(decider, balancers, placements, source, target):
    """The same as Balance.movable, of a plan."""
    found = []
    for key in sorted(balancers):
        mine, balancer = placements.get(key, ()), balancers[key]
        hosts = [row.host for row in mine]
        if (source in hosts and target not in hosts
                and len(hosts) == decider.wanted(balancer)
                and all(not row.error and row.synced_generation
                        >= balancer.generation for row in mine)):
            found.append((balancer, hosts))
            if len(found) == MOVABLE_MAX:
                break
    return found
