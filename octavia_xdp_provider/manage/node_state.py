# SPDX-License-Identifier: Apache-2.0
"""What a node reports of itself, in a few words."""

from octavia_xdp_provider.controller import status


def problems(state, silence_s, timeout_s):
    """What does not work on a node, texts; of one that is not heard, as it
    last said.

    :param silence_s: since it was heard; None: never.
    """
    found = [] if silence_s is None or silence_s <= timeout_s else [
        f'not heard for {silence_s:.0f} s']
    nat = state.get('nat') or {}
    return found + status.problems(state) + (
        [nat['problem']] if 'problem' in nat else [])


def uplinks(state):
    """How many uplinks a node uses, of how many that it has."""
    found = state.get('uplinks')
    if found is None:
        return '-'
    used = [one for one in found
            if not one.get('problem') and _goes_out(one)]
    return f'{len(used)}/{len(found)}'


def _goes_out(uplink):
    """Whether packets of a family can leave by it."""
    if uplink.get('forwards') is not None:
        return bool(uplink['forwards'])
    hops = [uplink.get(family) or {} for family in ('v4', 'v6')]
    return any(hop.get('mac') and not hop.get('last_resort') for hop in hops)


def nat_flows(state):
    """How many flows by NAT a node has."""
    return (state.get('nat') or {}).get('flows') or 0


def health_checker(state):
    """How the health checker of a node does."""
    found = state.get('health_checker')
    if found is None:
        return 'no answer'
    stretch = found.get('stretch_percent', 0)
    late = f'{found.get("late_p99_ms", 0):.0f} ms late'
    if stretch > 100:
        return f'overloaded: intervals at {stretch} %, {late}'
    return f'{found.get("checks", 0)} checks, {late}'
