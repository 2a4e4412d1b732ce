# SPDX-License-Identifier: Apache-2.0
"""Why a load balancer is not as it should be, and on which node."""

from octavia_xdp_provider.common import connections
from octavia_xdp_provider.manage import placement_state


def problems(balancer, mine, silence_s, refusals):
    """Texts; those about a node or a listener begin with its name or id.

    :param balancer: rows.LoadBalancer.
    :param mine: its placements.
    :param silence_s: host → seconds since it was heard; left out: never, or
        it is not registered any more.
    :param refusals: called without arguments for Scheduler.refusals.
    """
    if balancer.deleted:
        was_sent = balancer.failed_generation >= balancer.generation
        return [f'{row.host}: has not removed it, {_heard(row, silence_s)}'
                + (', so that it is ERROR in Octavia' if was_sent else '')
                for row in mine]
    if balancer.pending is not None:
        return ['a change waits for Octavia\'s commit']
    if not mine:
        return [f'{host}: {why}' for host, why in refusals().items()] or [
            'it is not placed yet, or no node is registered']
    return [f'{row.host}: {text}' for row in mine
            if (text := _of_node(row, balancer, silence_s))] + [
        f'listener {key}: connection_limit {limit} has no effect without '
        'forwarding nat' for key, limit
        in connections.without_effect(balancer.document).items()]


def _of_node(row, balancer, silence_s):
    word = placement_state.word(row, balancer)
    if word == 'ok':
        return None
    if word == 'failing':
        return row.error
    if word == 'loading':
        return f'has not done the newest change, {_heard(row, silence_s)}'
    if word == 'leaving':
        return f'has not given it up yet, {_heard(row, silence_s)}'
    return 'others take it over from this node'


def _heard(row, silence_s):
    if row.host not in silence_s:
        return 'and is not heard'
    return f'heard {silence_s[row.host]:.0f} s ago'
