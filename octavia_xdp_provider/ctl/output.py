# SPDX-License-Identifier: Apache-2.0
"""Output of octavia-xdp-ctl: process/output.py, and objects of LB nodes."""

from typing import Any

from octavia_xdp_provider.node import types
from octavia_xdp_provider.process.output import cell
from octavia_xdp_provider.process.output import dump
from octavia_xdp_provider.process.output import line
from octavia_xdp_provider.process.output import plain
from octavia_xdp_provider.process.output import short
from octavia_xdp_provider.process.output import table

__all__ = ['cell', 'dump', 'key', 'line', 'member_state', 'plain', 'short',
           'table', 'tunnel', 'tunnel_value']


def key(service: types.Key) -> dict[str, Any]:
    """Return a service's key for JSON."""
    return {'vip': service.address, 'protocol': service.protocol,
            'port': service.port}


def member_state(member: types.MemberState) -> str:
    """Describe a member in one word."""
    if not member.admin_up:
        return 'disabled'
    if not member.healthy:
        return 'down' if member.known else 'unknown'
    if member.takes_flows:
        return 'up'
    return 'drained' if not member.weight else 'standby'


def tunnel(value: types.Tunnel) -> str:
    """Describe a member's own tunnel."""
    text = f'{value.encapsulation.name.lower()} {value.address}'
    return f'{text} key {value.key}' if value.key else text


def tunnel_value(value: types.Tunnel) -> dict[str, Any]:
    """Return a tunnel for JSON, with the field names of the wanted state."""
    return {'address': value.address,
            'encapsulation': value.encapsulation.name.lower(),
            'key': value.key or None}
