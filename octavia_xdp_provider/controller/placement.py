# SPDX-License-Identifier: Apache-2.0
"""Which nodes carry which VIP.

A pure function of what is stored, called again and again: additions come
first, and a node that is dead or taken out of service loses a VIP only
when enough others have made it true, so that a VIP never has fewer nodes
for having been moved.
"""

import collections
import dataclasses


@dataclasses.dataclass(frozen=True)
class Move:
    """Nodes that one load balancer is put on and taken from."""

    load_balancer_id: str
    add: tuple
    remove: tuple


def plan(load_balancers, placements, eligible, default_replicas):
    """What to change so that each VIP is on enough eligible nodes.

    :param load_balancers: the stored rows.
    :param placements: the stored rows.
    :param eligible: hosts that are alive and in service.
    :returns: a list of Move.
    """
    on = collections.defaultdict(dict)
    load = collections.Counter(dict.fromkeys(eligible, 0))
    for placement in placements:
        if placement.removed_generation is None:
            on[placement.load_balancer_id][placement.host] = placement
            load[placement.host] += 1
    moves = []
    for balancer in load_balancers:
        if balancer.deleted:
            continue
        current = on[balancer.id]
        wanted = balancer.document['flavor'].get('replicas',
                                                 default_replicas)
        good = [host for host in current if host in eligible]
        free = sorted(set(eligible) - current.keys(),
                      key=lambda host: (load[host], host))
        add = tuple(free[:max(0, wanted - len(good))])
        load.update(add)
        synced = [host for host in good if not current[host].error
                  and current[host].synced_generation >= balancer.generation]
        remove = ()
        if len(synced) >= wanted:
            remove = tuple(sorted(current.keys() - set(good)))
            surplus = sorted(good, key=lambda host: (-load[host], host))
            remove += tuple(surplus[:max(0, len(good) - wanted)])
        if add or remove:
            moves.append(Move(balancer.id, add, remove))
    return moves
