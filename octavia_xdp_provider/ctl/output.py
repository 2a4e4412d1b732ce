# SPDX-License-Identifier: Apache-2.0
"""Output of octavia-xdp-ctl: what LB nodes have, as common/output.py shows
it."""

from octavia_xdp_provider.common.output import cell
from octavia_xdp_provider.common.output import dump
from octavia_xdp_provider.common.output import line
from octavia_xdp_provider.common.output import plain
from octavia_xdp_provider.common.output import short
from octavia_xdp_provider.common.output import table

__all__ = ['cell', 'dump', 'key', 'line', 'member_state', 'plain', 'short',
           'table', 'tunnel', 'tunnel_value']


def key(service):
    """A service's key, for JSON."""
    return {'vip': service.address, 'protocol': service.protocol,
            'port': service.port}


def member_state(member):
    """One word on a MemberState, and why."""
    if not member.admin_up:
        return 'disabled'
    if not member.healthy:
        return 'down' if member.known else 'unknown'
    if member.takes_flows:
        return 'up'
    return 'drained' if not member.weight else 'standby'


def tunnel(found):
    """A member's own tunnel, in a few words."""
    text = f'{found.encapsulation.name.lower()} {found.address}'
    return f'{text} key {found.key}' if found.key else text


def tunnel_value(found):
    """The same, for JSON, in the words of the wanted state."""
    return {'address': found.address,
            'encapsulation': found.encapsulation.name.lower(),
            'key': found.key or None}
