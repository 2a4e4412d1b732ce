# SPDX-License-Identifier: Apache-2.0
"""Short texts and figures from the state that a node reports."""

from collections.abc import Mapping
from typing import Any

from octavia_xdp_provider.controller import status

State = Mapping[str, Any]


def problems(state: State, silence_s: float | None, timeout_s: float
             ) -> list[str]:
    """Return texts of what does not work, by the node's last report.

    :param silence_s: seconds since that report; None: there was none.
    """
    texts = [] if silence_s is None or silence_s <= timeout_s else [
        f'no report for {silence_s:.0f} s']
    nat = state.get('nat') or {}
    return texts + status.problems(dict(state)) + (
        [nat['problem']] if 'problem' in nat else [])


def uplinks(state: State) -> str:
    """Return 'usable uplinks/all uplinks', or '-' without a report."""
    reported = state.get('uplinks')
    if reported is None:
        return '-'
    usable = [uplink for uplink in reported
              if not uplink.get('problem') and _can_forward(uplink)]
    return f'{len(usable)}/{len(reported)}'


def _can_forward(uplink: State) -> bool:
    """Return whether packets of some address family can leave by it."""
    if uplink.get('forwards') is not None:
        return bool(uplink['forwards'])
    hops = [uplink.get(family) or {} for family in ('v4', 'v6')]
    return any(hop.get('mac') and not hop.get('last_resort') for hop in hops)


def nat_flows(state: State) -> int:
    """Return the number of NAT flows of a node."""
    return int((state.get('nat') or {}).get('flows') or 0)


def health_checker(state: State) -> str:
    """Return a text on the load of a node's health checker."""
    checker = state.get('health_checker')
    if checker is None:
        return 'no answer'
    stretch = checker.get('stretch_percent', 0)
    late = f'{checker.get("late_p99_ms", 0):.0f} ms late'
    if stretch > 100:
        return f'overloaded: intervals at {stretch} %, {late}'
    return f'{checker.get("checks", 0)} checks, {late}'
