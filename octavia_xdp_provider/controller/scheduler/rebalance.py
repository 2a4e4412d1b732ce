# SPDX-License-Identifier: Apache-2.0
"""Moves that only even out the load, one at a time.

A move begins with an addition: the load balancer is on one node more than
wanted until that node has it, and then decision.py takes it from the node
with the most load. So what is under way is seen in the placements.
"""

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision

# A difference of one cannot be made smaller; less than a tenth is not worth
# moving anybody's flows.
DIFFERENCE_MIN = 2
DIFFERENCE_SHARE = 0.1


def ends(cluster):
    """The fullest and the emptiest live node, or None.

    None: the load is even enough, or there are not two nodes.
    """
    live = [host for host in cluster.hosts.values()
            if host.condition is clusters.Condition.LIVE]
    if len(live) < 2:
        return None
    live.sort(key=lambda host: (host.load_balancers, host.name))
    emptiest, fullest = live[0], live[-1]
    difference = fullest.load_balancers - emptiest.load_balancers
    if (difference < DIFFERENCE_MIN or
            difference < DIFFERENCE_SHARE * fullest.load_balancers):
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
