# SPDX-License-Identifier: Apache-2.0
"""What a program made of a packet: its action, and the packet's outcome."""

import enum

from octavia_xdp_provider.node.inspection import Run
from octavia_xdp_provider.node.types import Outcome

ACTIONS = ('XDP_ABORTED', 'XDP_DROP', 'XDP_PASS', 'XDP_TX', 'XDP_REDIRECT')
REMARKS = (Outcome.FRAGMENT_GUESSED, Outcome.FLOW_TABLE_FULL,
           Outcome.NAT_EVICTED, Outcome.NAT_HANDED_ON)


class Action(enum.IntEnum):
    """enum xdp_action"""

    DROP = 1
    PASS = 2
    TX = 3
    REDIRECT = 4


def action_name(number: int) -> str:
    return (ACTIONS[number] if number < len(ACTIONS)
            else f'XDP action {number}')


def outcome_of(run: Run) -> Outcome:
    """Derive the outcome of a run from its action and counters."""
    counted = [outcome for outcome in run.outcomes if outcome not in REMARKS]
    outcome: Outcome
    if len(counted) == 1:
        outcome = counted[0]
    elif counted or run.action not in (Action.PASS, Action.TX,
                                       Action.REDIRECT):
        outcome = Outcome.DROP_INTERNAL
    else:
        outcome = (Outcome.PASS if run.action == Action.PASS
                   else Outcome.FORWARDED)
    return outcome
