# SPDX-License-Identifier: Apache-2.0
"""Compares what a program did with a packet with the packet model."""

from octavia_xdp_provider.ctl import outer
from octavia_xdp_provider.packet_model import state

Action = state.Action
Outcome = state.Outcome
Encapsulation = state.Encapsulation

ACTIONS = ('XDP_ABORTED', 'XDP_DROP', 'XDP_PASS', 'XDP_TX', 'XDP_REDIRECT')
REMARKS = (Outcome.FRAGMENT_GUESSED, Outcome.FLOW_TABLE_FULL)
_ANSWERS = (Outcome.ECHO_REPLY, Outcome.SENT_TOO_BIG)
# Outcomes that the kernel's routes may cause for a packet to be forwarded.
_BY_ROUTES = (Outcome.DROP_NO_NEXT_HOP, Outcome.DROP_TOO_BIG,
              Outcome.SENT_TOO_BIG, Outcome.PASSED_TOO_BIG)
_LINK_HEADER = 14
_OUTER = (('destination', 'it goes to {}, by the tables to {}'),
          ('vni', 'its VNI is {}, by the tables {}'),
          ('source', 'it comes from {}, by the tables from {}'),
          ('carried', 'it carries {} bytes, the client sent {}'))
_LINK = (('destination_mac', 'its next hop is {}, by the tables {}'),
         ('source_mac', 'its sender is {}, by the tables {}'),
         ('vlans', 'its VLANs are {}, by the tables {}'))


def action_name(number: int) -> str:
    return (ACTIONS[number] if number < len(ACTIONS)
            else f'XDP action {number}')


def outcome_of(run) -> Outcome:
    """Derive the outcome of a run from its action and counters."""
    counted = [outcome for outcome in run.outcomes if outcome not in REMARKS]
    if len(counted) == 1:
        return Outcome(counted[0])
    if counted or run.action not in (Action.PASS, Action.TX,
                                     Action.REDIRECT):
        return Outcome.DROP_INTERNAL
    return (Outcome.PASS if run.action == Action.PASS
            else Outcome.FORWARDED)


def left(run, result) -> outer.Outer | None:
    """Decode the sent packet, if it was forwarded to a service's member."""
    if result.service is None or outcome_of(run) != Outcome.FORWARDED:
        return None
    return outer.decode(run.frame, _encapsulation(result))


def differences(result, run, spent: bool):
    """Yield texts on how a run differs from the model's forward.Result.

    ``spent``: earlier packets may have used up the budget for answers.
    """
    outcome = outcome_of(run)
    if outcome != result.outcome:
        by_budget = spent and result.outcome in _ANSWERS and (
            outcome in (Outcome.PASS, Outcome.DROP_TOO_BIG))
        by_routes = result.action is None and outcome in _BY_ROUTES
        if not by_budget and not by_routes:
            yield (f'the outcome is {outcome.name}, by the tables '
                   f'{result.outcome.name}')
            return
    elif result.action is not None and result.action != run.action:
        yield (f'it is {action_name(run.action)}, by the tables '
               f'{action_name(result.action)}')
    remarks = {remark for remark in run.outcomes if remark in REMARKS}
    if remarks != set(result.remarks):
        names = sorted(Outcome(remark).name
                       for remark in remarks ^ set(result.remarks))
        yield f'remarks differ: {", ".join(names)}'
    if outcome == result.outcome:
        yield from _frame_differences(result, run)


def _frame_differences(result, run):
    texts = list(_outer_differences(result, run)) if (
        result.outcome == Outcome.FORWARDED) else []
    yield from texts
    if texts or run.action == Action.DROP or result.action is None:
        return
    if run.frame != result.frame:
        at = next((index for index, (actual, expected) in enumerate(zip(
            run.frame, result.frame, strict=False)) if actual != expected),
            min(len(run.frame), len(result.frame)))
        yield (f'of {len(run.frame)} bytes from byte {at} on it is '
               f'{run.frame[at:at + 16].hex()}, by the tables of '
               f'{len(result.frame)} {result.frame[at:at + 16].hex()}')


def _encapsulation(result):
    return result.service.members[result.member].encapsulation


def _outer_differences(result, run):
    encapsulation = _encapsulation(result)
    sent = outer.decode(run.frame, encapsulation)
    if sent is None or sent.encapsulation != encapsulation:
        yield (f'what leaves is not {encapsulation.name}: '
               f'{run.frame[:64].hex()}')
        return
    frame, fields = result.frame, _OUTER + _LINK
    if result.action is None:  # the kernel's routes decide the link header
        frame, fields = run.frame[:_LINK_HEADER] + frame, _OUTER
    wanted = outer.decode(frame, encapsulation)
    if encapsulation == Encapsulation.DSCP:
        fields += (('dscp', 'its DSCP is {}, by the tables {}'),)
    for name, text in fields:
        actual, expected = getattr(sent, name), getattr(wanted, name)
        if actual != expected:
            yield text.format(actual, expected)
