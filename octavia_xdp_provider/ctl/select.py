# SPDX-License-Identifier: Apache-2.0
"""The member that takes a packet of a service: forwarding.rst, "Selection".

Functions take the Decision that they fill in, from decide.py.
"""

from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import quic
from octavia_xdp_provider.node.types import ServiceFlag


def keeps(member):
    """Whether a member keeps flows that it has."""
    return member is not None and member.admin_up and member.healthy


def _address(member):
    return 'nobody' if member is None else member.address


def by_quic(decision, tables, key, payload):
    """Whether a QUIC connection ID selects the member."""
    if ServiceFlag.QUIC not in tables.services[key].settings.flags:
        return False
    server = quic.server_id(payload)
    if server is None:
        decision.step('QUIC', 'no connection ID of a member\'s')
        return False
    for member in tables.members(key).values():
        if member.quic_server_id == server and keeps(member):
            decision.step('QUIC', f'server ID {server:08x}')
            decision.member = member
            return True
    decision.step('QUIC', f'server ID {server:08x} is of no member that is '
                  'up')
    return False


def by_slot(decision, tables, key, selection, question, opens):
    """The slot's owner, or the flow's own in a slot that changes owners."""
    members = tables.members(key)
    by_source = ServiceFlag.SOURCE in tables.services[key].settings.flags
    now = members.get(selection.now)
    decision.step('slot', f'{selection.slot} of {selection.slots}, '
                  + ('by source address, ' if by_source else '')
                  + ('open: it changes owners' if selection.open
                     else 'not open'))
    if not selection.open:
        decision.step('owner', _address(now))
        decision.member = now
        return
    before = members.get(selection.before)
    decision.step('owner', f'now {_address(now)}, before {_address(before)}')
    known = members.get(selection.remembered)
    if selection.remembered is None:
        decision.step('remembered', 'no')
    else:
        decision.step('remembered', f'with {_address(known)}, '
                      f'{selection.age} s ago, '
                      + ('' if selection.confirmed else 'not ')
                      + 'confirmed')
    decision.member, why = _choose(
        decision, selection, known, now, before, opens and not by_source,
        question.later, question.protocol != packet.UDP and not by_source)
    decision.step('choice', f'{_address(decision.member)}: {why}')


def _choose(decision, selection, known, now, before, opens, later,
            connected):
    """(member, why) of an open slot."""
    old = before if keeps(before) else now
    if later:
        return old, 'fragments stay with the owner before'
    if keeps(known):
        if not opens:
            return known, 'remembered'
        if known.takes_flows:
            return known, 'opened before, and not answered yet'
    if opens:
        if now is not None and now != before:
            decision.instead = before if (
                before is not None and before.takes_flows) else now
        return now, 'a new flow'
    if connected:
        return old, 'not remembered, so older than the change'
    if selection.learning:
        return old, 'flows are still being learnt'
    return now, 'not remembered, so new'
