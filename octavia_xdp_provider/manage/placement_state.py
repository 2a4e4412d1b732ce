# SPDX-License-Identifier: Apache-2.0
"""The state of a placement: how far a node is with a load balancer."""

from collections.abc import Iterable

from octavia_xdp_provider.controller.store import rows


def classify(placement: rows.Placement,
             load_balancer: rows.LoadBalancer | None) -> str:
    """Return the state, as the columns named "state" show it.

    :param load_balancer: None if it is gone.
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


def by_load_balancer(placements: Iterable[rows.Placement]
                     ) -> dict[str, list[rows.Placement]]:
    """Return placements by load balancer id."""
    grouped: dict[str, list[rows.Placement]] = {}
    for placement in placements:
        grouped.setdefault(placement.load_balancer_id, []).append(placement)
    return grouped
