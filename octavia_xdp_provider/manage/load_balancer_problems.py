# SPDX-License-Identifier: Apache-2.0
"""Why a load balancer is not as it should be, and on which node."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller import proxies
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.manage import placement_state


def problems(load_balancer: rows.LoadBalancer,
             placements: Sequence[rows.Placement],
             silence_s: Mapping[str, float],
             get_refusals: Callable[[rows.Role], Mapping[str, str]]
             ) -> list[str]:
    """Return texts; each begins with the node or listener it is about, if any.

    :param placements: those of this load balancer.
    :param silence_s: host → seconds since its last report; without nodes that
        never reported or are not registered.
    :param get_refusals: returns what Scheduler.refusals returns of a role.
    """
    if load_balancer.deleted:
        was_sent = (load_balancer.failed_generation
                    >= load_balancer.generation)
        return [f'{placement.host}: has not removed it'
                f'{_last_report(placement, silence_s)}'
                + (', so it is in ERROR in Octavia' if was_sent else '')
                for placement in placements]
    if load_balancer.pending is not None:
        return ['a change waits for Octavia\'s commit']
    lacking = lacking_role(load_balancer, placements)
    if lacking is not None:
        return [f'{host}: {why}'
                for host, why in get_refusals(lacking).items()] or [
            'it is not placed yet, or no node is registered'
            if lacking == rows.LB else
            'its listeners of layer 7 are not placed yet, or no proxy node '
            'is registered']
    return [f'{placement.host}: {text}' for placement in placements
            if (text := _node_problem(placement, load_balancer, silence_s))
            ] + [f'listener {key}: LB nodes do not forward it yet, because '
                 'its proxy nodes have not all applied it'
                 for key in proxies.unserved(load_balancer.document)]


def lacking_role(load_balancer: rows.LoadBalancer,
                 placements: Iterable[rows.Placement]) -> rows.Role | None:
    """Return the role of nodes that a load balancer needs, and is on none of.
    """
    roles = {placement.role for placement in placements}
    if rows.LB not in roles:
        return rows.LB
    if (rows.PROXY not in roles
            and tiers.needs_proxies(load_balancer.document)):
        return rows.PROXY
    return None


def _node_problem(placement: rows.Placement,
                  load_balancer: rows.LoadBalancer,
                  silence_s: Mapping[str, float]) -> str | None:
    state = placement_state.classify(placement, load_balancer)
    if state == 'ok':
        return None
    if state == 'failing':
        return placement.error
    last_report = _last_report(placement, silence_s)
    if state == 'loading':
        return f'has not applied the newest change{last_report}'
    if state == 'leaving':
        return f'has not given it up yet{last_report}'
    return 'other nodes are taking it over from this node'


def _last_report(placement: rows.Placement, silence_s: Mapping[str, float]
                 ) -> str:
    if placement.host not in silence_s:
        return '; it does not report'
    return f'; its last report came {silence_s[placement.host]:.0f} s ago'
