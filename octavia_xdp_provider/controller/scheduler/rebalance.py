# SPDX-License-Identifier: Apache-2.0
"""Moves that spread load balancers over zones, or only even out the load.

A move begins with an addition: the load balancer has one node more than
wanted until that node has applied it, and then decision.py takes it from the
node with the most load in the zone with the most of its nodes. The placements
thus show which moves are under way. No move makes a spread worse.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import copy
import dataclasses

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import moves
from octavia_xdp_provider.controller.scheduler import spread as spreads
from octavia_xdp_provider.controller.store import rows

# A difference of one cannot be reduced, and less than a tenth is not worth
# moving flows.
DIFFERENCE_MIN = 2
DIFFERENCE_SHARE = 0.1

# Load balancers that are examined in search of one that may be moved.
MOVABLE_MAX = 20


def extremes(cluster: clusters.Cluster
             ) -> list[tuple[clusters.Host, clusters.Host]]:
    """Return pairs of a full and an empty live node, of all nodes and then of
    each zone.

    :returns: pairs of cluster.Hosts; none where the load is even enough.
    """
    hosts = cluster.hosts
    return [(hosts[fullest], hosts[emptiest]) for fullest, emptiest
            in names_of_extremes(
                {name: host.load_balancers for name, host in hosts.items()},
                {name: host.condition for name, host in hosts.items()},
                {name: host.zone for name, host in hosts.items()})]


def names_of_extremes(load: Mapping[str, int],
                      conditions: Mapping[str, clusters.Condition],
                      zones: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what extremes() does, by name and without the nodes' reports.

    :param load: host → number of load balancers; 0 if left out.
    :param conditions: host → Condition.
    :param zones: host → zone, '' for none.
    """
    live = sorted((load.get(name, 0), name) for name, condition
                  in conditions.items()
                  if condition is clusters.Condition.LIVE)
    groups = [live, *([entry for entry in live if zones[entry[1]] == zone]
                      for zone in sorted({zones[name] for _, name in live}))]
    pairs: list[tuple[str, str]] = []
    for group in groups:
        if len(group) < 2:
            continue
        (least, emptiest), (most, fullest) = group[0], group[-1]
        difference = most - least
        if (difference >= DIFFERENCE_MIN
                and difference >= DIFFERENCE_SHARE * most
                and (fullest, emptiest) not in pairs):
            pairs.append((fullest, emptiest))
    return pairs


def move(decider: decision.Decider,
         movable: Iterable[tuple[rows.LoadBalancer, Sequence[str]]],
         target: clusters.Host) -> moves.Move | None:
    """Return the first Move to a node that no filter refuses, or None.

    :param movable: pairs (load balancer, the hosts that it is on).
    """
    for balancer, names in movable:
        if (decider.refusal(target, balancer.document) is None
                and _evens_out(decider, balancer, names, target)):
            return moves.Move(balancer.id, frozenset(names), (target.name,))
    return None


def _evens_out(decider: decision.Decider, balancer: rows.LoadBalancer,
               names: Iterable[str], target: clusters.Host) -> bool:
    """Return whether the load balancer would leave a fuller node for the
    target. Its spread may keep it from leaving the fullest one."""
    with_it = copy.copy(target)
    with_it.load_balancers += 1
    leaves = decider.worst(balancer, [with_it, *(
        decider.cluster.hosts[name] for name in names)])
    return leaves.load_balancers - target.load_balancers >= DIFFERENCE_MIN


def mend(decider: decision.Decider, balancer: rows.LoadBalancer,
         placements: Sequence[rows.Placement]) -> moves.Move | None:
    """Return the Move to a zone with fewer nodes of a load balancer, or None.
    """
    spread, names = decider.spread(balancer), [
        row.host for row in placements]
    zones = spreads.count(decider.hosts(placements))
    if (spread == spreads.OFF or len(names) != decider.wanted(balancer)
            or max(zones.values(), default=0) < 2 or decider.settle_s
            or not all(decider.is_fine(balancer, row) for row in placements)):
        return None
    best = spreads.pick(spread, decider.candidates(balancer, names),
                        zones.copy(), 1)
    if not best or not spreads.is_better(zones, best[0].zone):
        return None
    return moves.Move(balancer.id, frozenset(names), (best[0].name,))


def spread_refusal(decider: decision.Decider, balancer: rows.LoadBalancer,
                   names: Iterable[str], source: str, target: clusters.Host
                   ) -> str | None:
    """Return why a requested move would make the spread worse, or None.

    :param names: the hosts that it is on; ``source`` is one of them.
    :param target: a cluster.Host.
    """
    hosts, spread = decider.cluster.hosts, decider.spread(balancer)
    zones = spreads.count(hosts[name] for name in names if name in hosts)
    if (source not in hosts or spread == spreads.OFF
            or not spreads.is_worse(zones, hosts[source].zone, target.zone)):
        return None
    return (f'with spread {spread} it would be moved back, as zone '
            f'{target.zone!r} has {zones[target.zone]} of its nodes, and the '
            f'zone that it would leave {zones[hosts[source].zone]}')


@dataclasses.dataclass(frozen=True)
class Step:
    """A move of a plan; ``sources``: the nodes that it leaves."""

    load_balancer_id: str
    sources: tuple[str, ...]
    target: str


def plan(decider: decision.Decider,
         balancers: Mapping[str, rows.LoadBalancer],
         placements: Mapping[str, Iterable[rows.Placement]]
         ) -> Iterator[Step]:
    """Yield a Step for each move until spread and load are even.

    The plan assumes that nothing else changes meanwhile. Nothing is stored,
    but the decider's cluster is changed.

    :param decider: a Decider with a drain time of 0.
    :param balancers: id → rows.LoadBalancer.
    :param placements: id → rows.Placements that are not being removed.
    """
    placed = {key: list(of_key) for key, of_key in placements.items()}
    for key in sorted(balancers):
        while moved := mend(decider, balancers[key], placed.get(key, ())):
            yield _make(decider, balancers[key], placed, moved)
    # Each move reduces a difference, but filters and weighers are plugins
    # that may prevent that, so the number of moves is bounded.
    for _ in range(len(balancers)):
        moved = next(filter(None, (
            move(decider, _movable(decider, balancers, placed,
                                   fullest.name, emptiest.name), emptiest)
            for fullest, emptiest in extremes(decider.cluster))), None)
        if moved is None:
            return
        yield _make(decider, balancers[moved.load_balancer_id], placed, moved)


def _make(decider: decision.Decider, balancer: rows.LoadBalancer,
          placements: dict[str, list[rows.Placement]], moved: moves.Move
          ) -> Step:
    """Make a move in the decider's cluster, and return its Step."""
    target, = moved.add
    placed = placements[balancer.id]
    placed.append(rows.Placement(
        balancer.id, target, balancer.generation, None, None,
        announced=all(row.announced is not False for row in placed),
        role=decider.role))
    decider.cluster.add(target, filters.services(balancer.document,
                                                 decider.role))
    follow_up = decider.decide(balancer, placed, decision.Traffic(
        unused=[row.host for row in placed]))
    sources = tuple(follow_up.remove) if follow_up else ()
    placements[balancer.id] = [row for row in placed
                               if row.host not in sources]
    return Step(balancer.id, sources, target)


def _movable(decider: decision.Decider,
             balancers: Mapping[str, rows.LoadBalancer],
             placements: Mapping[str, Sequence[rows.Placement]],
             source: str, target: str
             ) -> list[tuple[rows.LoadBalancer, list[str]]]:
    """Return what the store's movable() does, for a plan's placements."""
    movable: list[tuple[rows.LoadBalancer, list[str]]] = []
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
