# SPDX-License-Identifier: Apache-2.0
"""The state of a placement: how far a node is with a load balancer."""


def classify(placement, load_balancer):
    """Return the state, as the columns named "state" show it.

    :param load_balancer: rows.LoadBalancer, or None if it is gone.
    """
    if placement.removed_generation is not None:
        return 'leaving'
    if placement.error:
        return 'failing'
    if placement.draining_since is not None:
        return 'draining'
    if (load_balancer
            and placement.synced_generation < load_balancer.generation):
        return 'loading'
    return 'ok'


def by_load_balancer(placements):
    """Return {load balancer id: placements}."""
    grouped = {}
    for placement in placements:
        grouped.setdefault(placement.load_balancer_id, []).append(placement)
    return grouped
