# SPDX-License-Identifier: Apache-2.0
"""Limits how many VIPs leave failed nodes without an operator's consent.

Each removal is right by itself: the node is dead or failed to apply the VIP,
and others have taken over. But many at once are more likely a fault of the
controller or of the network than of the nodes, and a removal that is deferred
costs no more than a superfluous route.
"""

from collections.abc import Iterable
import dataclasses

from octavia_xdp_provider.controller.scheduler import moves


def allowance(placements: int, share_percent: int, least: int) -> int:
    """Return the number of removals that one time span allows.

    :param placements: the number of all placements.
    """
    return max(least, placements * share_percent // 100)


def cut(wanted: Iterable[moves.Move], remaining: int
        ) -> tuple[list[moves.Move], int]:
    """Reduce moves to at most ``remaining`` removals from failed nodes.

    :returns: (moves, number of deferred removals). Additions, and removals
        that the operator requested, are never deferred.
    """
    kept, deferred = [], 0
    for move in wanted:
        remove = {}
        for host, reason in move.remove.items():
            if reason.is_failure:
                if remaining <= 0:
                    deferred += 1
                    continue
                remaining -= 1
            remove[host] = reason
        move = dataclasses.replace(move, remove=remove)
        if move.changes_something or move.again_in_s is not None:
            kept.append(move)
    return kept, deferred
