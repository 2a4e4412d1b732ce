# SPDX-License-Identifier: Apache-2.0
"""How the nodes of a load balancer are spread over availability zones.

Numbers of nodes per zone decide: a zone with two nodes of a load balancer and
another with none means that one failure takes both. Nodes without a zone are
in one common zone, ''.
"""

import collections
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.controller.scheduler import cluster

PREFER, REQUIRE, OFF = flavor.SPREADS

Zones = collections.Counter[str]


def count(hosts: Iterable[cluster.Host]) -> Zones:
    """Return zone → number of nodes."""
    return collections.Counter(host.zone for host in hosts)


def pick(spread: str, candidates: Sequence[cluster.Host], zones: Zones,
         number: int, stay: Collection[str] = ()) -> list[cluster.Host]:
    """Return up to ``number`` hosts, each in a zone with the fewest nodes.

    :param candidates: best first.
    :param zones: where the load balancer's nodes are; it is changed.
    :param stay: zones of nodes that can only be replaced by nodes of zones
        that are as empty.
    """
    picked: list[cluster.Host] = []
    while len(picked) < number:
        free = [host for host in candidates if host not in picked
                and not (spread == REQUIRE and zones[host.zone])]
        if not free:
            break
        # The first of several equal ones is the best.
        best = free[0] if spread == OFF else min(
            free, key=lambda host: zones[host.zone])
        if spread != OFF and any(zones[zone] < zones[best.zone]
                                 for zone in stay):
            break
        zones[best.zone] += 1
        picked.append(best)
    return picked


def fullest(spread: str, hosts: Sequence[cluster.Host]
            ) -> list[cluster.Host]:
    """Return the hosts in zones with the most of them, or all if zones do not
    matter."""
    zones = count(hosts)
    return [host for host in hosts
            if spread == OFF or zones[host.zone] == max(zones.values())]


def is_better(zones: Zones, zone: str) -> bool:
    """Return whether moving a node from the fullest zone to ``zone`` makes
    the numbers more equal."""
    return zones[zone] + 2 <= max(zones.values(), default=0)


def is_worse(zones: Zones, source: str, target: str) -> bool:
    """Return whether moving a node between zones makes the numbers less
    equal."""
    return source != target and zones[target] >= zones[source]
