# SPDX-License-Identifier: Apache-2.0
"""How many VIPs may leave failed nodes before a person has to say so.

Each removal is right by itself: the node is dead or cannot do its part, and
others have taken over. Many at once are more likely an error of whoever
judges, the controller or the network between, than of the nodes, and what is
not removed costs nothing but a route too many.
"""

import dataclasses


def allowance(placements, share_percent, least):
    """Removals that are free in one time span.

    :param placements: how many there are in all.
    """
    return max(least, placements * share_percent // 100)


def cut(moves, remaining):
    """The moves, with no more removals from failed nodes than remain.

    :returns: (moves, how many removals were left out). Additions and what
        the operator asked for are never left out.
    """
    kept, left_out = [], 0
    for move in moves:
        remove = {}
        for host, why in move.remove.items():
            if why.is_failure:
                if remaining <= 0:
                    left_out += 1
                    continue
                remaining -= 1
            remove[host] = why
        move = dataclasses.replace(move, remove=remove)
        if move.changes_something or move.again_in_s is not None:
            kept.append(move)
    return kept, left_out
