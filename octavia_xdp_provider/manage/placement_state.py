# SPDX-License-Identifier: Apache-2.0
"""How far a node is with a load balancer, in a word."""


def word(row, balancer):
    """:param balancer: rows.LoadBalancer, or None if it is gone."""
    if row.removed_generation is not None:
        return 'leaving'
    if row.error:
        return 'failing'
    if row.draining_since is not None:
        return 'draining'
    if balancer and row.synced_generation < balancer.generation:
        return 'loading'
    return 'ok'


def by_load_balancer(placements):
    """Id → placements."""
    found = {}
    for row in placements:
        found.setdefault(row.load_balancer_id, []).append(row)
    return found
