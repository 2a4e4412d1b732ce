# SPDX-License-Identifier: Apache-2.0
"""From listener, pool and flavor to how a service treats packets.

The document has passed ``validation.read``: what is out of range never gets
here, of which the datapath would take the low bits.
"""

import ipaddress

from octavia_xdp_provider.common import connections
from octavia_xdp_provider.common import enumerations
from octavia_xdp_provider.common import flavor as flavor_keys
from octavia_xdp_provider.common import persistence
from octavia_xdp_provider.common import rules
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import tunnels
from octavia_xdp_provider.node import datapath

_ENCAPSULATIONS = {kind.name.lower(): kind
                   for kind in datapath.Encapsulation}


_IP_HEADER = {4: 20, 6: 40}

# The unspecified address, which is nobody's source address.
_NOBODY = {4: ('0.0.0.0/32',), 6: ('::/128',)}


def of(document, listener, pool, vip, share=None, host=''):
    """The settings of a listener's service; slots are the node's business.

    :param vip: the address of the service, of several that there may be.
    :param share: nat.Share of the load balancer, with forwarding nat.
    :param host: this node, whose part of a limit of connections it is.
    """
    version = ipaddress.ip_address(vip).version
    flavor = document['flavor']
    allowed = listener['allowed_cidrs']
    common = {'new_flow_rate': flavor.get('new_flow_rate', 0),
              'new_flow_burst': flavor.get('new_flow_burst', 0),
              'allowed': _of_family(allowed, version) if allowed else None}
    flags = datapath.ServiceFlag(0)
    limit = connections.share(document, listener, host, vip)
    if limit:
        common['connection_limit'] = limit
        if flavor.get('connection_limit_reset'):
            flags |= datapath.ServiceFlag.RESET
    if share:
        return datapath.Settings(
            flags=flags | datapath.ServiceFlag.NAT,
            idle_timeout_s=_nat_idle_time(document, listener, share),
            nat_group=share.group, nat_flows=share.flows, **common)
    encapsulation = _ENCAPSULATIONS[
        flavor_keys.value(flavor, 'encapsulation')]
    if listener['protocol'] == 'UDP' and flavor.get('quic'):
        flags |= datapath.ServiceFlag.QUIC
    session = pool['session_persistence'] or {}
    by_source = session or pool['lb_algorithm'] == 'SOURCE_IP'
    # UDP and SCTP have no sockets that know their flows, and clients that
    # stay with a member have no flow that began before a change.
    if (flavor.get('second_chance') and not by_source
            and rules.transport(listener['protocol']) == 'TCP'):
        flags |= datapath.ServiceFlag.SECOND_CHANCE
    lengths = {}
    if by_source:
        flags |= datapath.ServiceFlag.SOURCE
        lengths = _source_length(session.get('persistence_granularity'),
                                 version)
    return datapath.Settings(
        flags=flags, encapsulation=encapsulation,
        dscp=flavor.get('dscp', 0),
        sid_function=flavor.get('srv6_function', 0),
        idle_timeout_s=(session.get('persistence_timeout')
                        or _idle_time(document, listener)),
        **lengths, **common)


def _idle_time(document, listener):
    """Seconds; 0 for the library's default, which is the flavor's as well."""
    wanted = spec.idle_time(document, listener)
    return 0 if wanted == flavor_keys.value({}, 'idle_timeout') else wanted


def _nat_idle_time(document, listener, share):
    """Seconds. What the flavor says; if it leaves that open, at least as long
    as either end may be silent."""
    if 'idle_timeout' in document['flavor']:
        return document['flavor']['idle_timeout']
    return max(share.idle_times[rules.transport(listener['protocol'])],
               spec.longest_silence(listener))


def tunnel(document, member, listener_id, vip):
    """The tunnel of packets from a listener to a member: datapath.Tunnel, or
    None, for the settings' encapsulation to the member's address.

    :param vip: that the packets are for, in its one spelling.
    """
    if 'tunnel' not in member:
        return None
    wanted = member['tunnel']
    return datapath.Tunnel(
        str(ipaddress.ip_address(wanted['address'])),
        _ENCAPSULATIONS[wanted['encapsulation']],
        spec.tunnel_key(document, wanted, listener_id, vip) or 0,
        spec.is_keyed(member), wanted.get('takes_alternative', False))


def overhead(settings, found):
    """Bytes that a datapath.Tunnel adds to a packet, with an alternative
    where it can name one."""
    version = ipaddress.ip_address(found.address).version
    taken = _IP_HEADER[version] + enumerations.SHIMS[found.encapsulation]
    if (found.takes_alternative
            and settings.flags & datapath.ServiceFlag.SECOND_CHANCE):
        taken += tunnels.ALTERNATIVE[version]
    return taken


def outer_address(settings, member, found=None):
    """The destination of the outer header of packets to a member.

    :param found: its datapath.Tunnel, or None.
    """
    if found:
        address = ipaddress.ip_address(found.address)
        if found.encapsulation == datapath.Encapsulation.SRV6:
            address += found.key
        return str(address)
    if settings.sid_function:
        address = int(ipaddress.IPv6Address(member))
        return str(ipaddress.IPv6Address(
            address & ~0xffff | settings.sid_function))
    return member


def _of_family(networks, version):
    """Those of the networks that clients of a VIP can be in.

    If all are of the other family, its VIP is for nobody: an empty list would
    be for everybody.
    """
    parsed = map(ipaddress.ip_network, networks)
    return tuple(sorted({str(one) for one in parsed
                         if one.version == version})) or _NOBODY[version]


def _source_length(granularity, vip_version):
    """How much of a client's address counts; all of it with a netmask of the
    other family."""
    if granularity is None:
        return {}
    version, length = persistence.prefix(granularity)
    if version != vip_version:
        return {}
    return {f'source_length_v{version}': length}
