# SPDX-License-Identifier: Apache-2.0
"""From listener, pool and flavor to how a service treats packets.

The document has passed ``validation.read``: what is out of range never gets
here, of which the datapath would take the low bits.
"""

import ipaddress

from octavia_xdp_provider.common import flavor as flavor_keys
from octavia_xdp_provider.common import persistence
from octavia_xdp_provider.node import datapath

_ENCAPSULATIONS = {kind.name.lower(): kind
                   for kind in datapath.Encapsulation}


def of(document, listener, pool):
    """The settings of a listener's service; slots are the node's business."""
    flavor = document['flavor']
    encapsulation = _ENCAPSULATIONS[
        flavor_keys.value(flavor, 'encapsulation')]
    flags = datapath.ServiceFlag(0)
    if listener['protocol'] == 'UDP' and flavor.get('quic'):
        flags |= datapath.ServiceFlag.QUIC
    session = pool['session_persistence'] or {}
    lengths = {}
    if session or pool['lb_algorithm'] == 'SOURCE_IP':
        flags |= datapath.ServiceFlag.SOURCE
        lengths = _source_length(session.get('persistence_granularity'))
    allowed = listener['allowed_cidrs']
    return datapath.Settings(
        flags=flags, encapsulation=encapsulation,
        dscp=flavor.get('dscp', 0),
        sid_function=flavor.get('srv6_function', 0),
        idle_timeout_s=(session.get('persistence_timeout')
                        or flavor.get('idle_timeout', 0)),
        new_flow_rate=flavor.get('new_flow_rate', 0),
        new_flow_burst=flavor.get('new_flow_burst', 0),
        allowed=tuple(sorted({str(ipaddress.ip_network(one))
                              for one in allowed})) if allowed else None,
        **lengths)


def outer_address(settings, member):
    """The destination of the outer header of packets to a member."""
    if settings.sid_function:
        address = int(ipaddress.IPv6Address(member))
        return str(ipaddress.IPv6Address(
            address & ~0xffff | settings.sid_function))
    return member


def _source_length(granularity):
    """How much of a client's address counts."""
    if granularity is None:
        return {}
    version, length = persistence.prefix(granularity)
    return {f'source_length_v{version}': length}
