# SPDX-License-Identifier: Apache-2.0
"""From listener, pool and flavor to how a service treats packets.

What is out of range is refused here a second time: the datapath would take
the low bits of some fields.
"""

import ipaddress

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import flavor as flavor_keys
from octavia_xdp_provider.common import persistence
from octavia_xdp_provider.node import datapath

_ENCAPSULATIONS = {kind.name.lower(): kind
                   for kind in datapath.Encapsulation}
# Seconds, as the datapath takes them.
IDLE_TIMEOUT = range(flavor_keys.IDLE_TIMEOUT_MIN,
                     flavor_keys.IDLE_TIMEOUT_MAX + 1)


def of(document, listener, pool):
    """The settings of a listener's service; slots are the node's business.

    :raises Refused: a field has a value that this node does not know.
    """
    flavor = document['flavor']
    encapsulation = _encapsulation(flavor)
    flags = datapath.ServiceFlag(0)
    if listener['protocol'] == 'UDP' and flavor.get('quic'):
        flags |= datapath.ServiceFlag.QUIC
    session = pool.get('session_persistence') or {}
    if (session.get('type') or 'SOURCE_IP') != 'SOURCE_IP':
        raise errors.Refused(
            'session_persistence', f'{session["type"]} is not known to '
            'this node', 'upgrade the node or use SOURCE_IP')
    lengths = {}
    if session or pool['lb_algorithm'] == 'SOURCE_IP':
        flags |= datapath.ServiceFlag.SOURCE
        lengths = _source_length(session.get('persistence_granularity'))
    idle_timeout = (session.get('persistence_timeout')
                    or flavor.get('idle_timeout') or 0)
    allowed = listener.get('allowed_cidrs')
    return datapath.Settings(
        flags=flags, encapsulation=encapsulation,
        dscp=(_within(flavor, 'dscp', range(1, 64))
              if encapsulation == datapath.Encapsulation.DSCP else 0),
        sid_function=(_within(flavor, 'srv6_function', range(65536))
                      if encapsulation == datapath.Encapsulation.SRV6 else 0),
        idle_timeout=_within({'idle_timeout': idle_timeout}, 'idle_timeout',
                             IDLE_TIMEOUT),
        new_flow_rate=_within(flavor, 'new_flow_rate', range(2 ** 32)),
        new_flow_burst=_within(flavor, 'new_flow_burst', range(2 ** 32)),
        allowed=tuple(sorted({str(ipaddress.ip_network(one))
                              for one in allowed})) if allowed else None,
        **lengths)


def outer_address(settings, member):
    """Where packets to a member are addressed to on the way."""
    if settings.sid_function:
        address = int(ipaddress.IPv6Address(member))
        return str(ipaddress.IPv6Address(
            address & ~0xffff | settings.sid_function))
    return member


def _encapsulation(flavor):
    name = flavor.get('encapsulation') or 'ipip'
    try:
        return _ENCAPSULATIONS[name]
    except KeyError:
        raise errors.Refused(
            'encapsulation', f'{name} is not known to this node',
            'upgrade the node or use one of '
            + ', '.join(_ENCAPSULATIONS)) from None


def _within(fields, name, allowed):
    """A number that may be missing, which is 0."""
    value = fields.get(name) or 0
    if value and value not in allowed:
        raise errors.Refused(
            name, f'{value} is not between {allowed[0]} and {allowed[-1]}',
            'use a value in this range')
    return value


def _source_length(granularity):
    """How much of a client's address counts."""
    if granularity is None:
        return {}
    version, length = persistence.prefix(granularity)
    return {f'source_length_v{version}': length}
