# SPDX-License-Identifier: Apache-2.0
"""Translates listener, pool and flavor to the settings of a service.

The document has passed ``validation.read``, so all values are in range; the
datapath would truncate them silently.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import ipaddress
from typing import Any

from octavia_xdp_provider.agent import nat as agent_nat
from octavia_xdp_provider.api import connections
from octavia_xdp_provider.api import rules
from octavia_xdp_provider.api import tunnels
from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.contracts import flavor as flavor_keys
from octavia_xdp_provider.contracts import persistence
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.node import datapath

_ENCAPSULATIONS = {kind.name.lower(): kind
                   for kind in datapath.Encapsulation}


_IP_HEADER = {4: 20, 6: 40}

# The unspecified address, which no packet has as its source.
_NOBODY = {4: ('0.0.0.0/32',), 6: ('::/128',)}


def of(document: spec.Document, listener: spec.Listener, pool: spec.Pool,
       vip: str, share: agent_nat.Share | None = None, host: str = ''
       ) -> datapath.Settings:
    """Return the settings of a listener's service, without its slots.

    :param vip: the address of the service; a listener may have several.
    :param share: of a load balancer with forwarding nat.
    :param host: this node, to get its share of the connection limit.
    """
    version = ipaddress.ip_address(vip).version
    flavor = document['flavor']
    allowed = listener['allowed_cidrs']
    common: dict[str, Any] = {
        'new_flow_rate': flavor.get('new_flow_rate', 0),
        'new_flow_burst': flavor.get('new_flow_burst', 0),
        'allowed': _select_family(allowed, version) if allowed else None}
    flags = datapath.ServiceFlag(0)
    limit = connections.share(document, listener, host, vip)
    if limit:
        common['connection_limit'] = limit
        if flavor.get('connection_limit_reset'):
            flags |= datapath.ServiceFlag.RESET
    is_proxied = pool.get('proxies', False)
    if share and not is_proxied:
        return datapath.Settings(
            flags=flags | datapath.ServiceFlag.NAT,
            idle_timeout_s=_nat_idle_time(document, listener, share),
            nat_group=share.group, nat_flows=share.flows, **common)
    if listener['protocol'] == 'UDP' and flavor.get('quic'):
        flags |= datapath.ServiceFlag.QUIC
    session: Any = pool['session_persistence'] or {}
    by_source = session or pool['lb_algorithm'] == 'SOURCE_IP'
    # Sockets of UDP and SCTP do not show which flows a member has. Clients
    # that stay with a member have no flow from before a change.
    if ((is_proxied or flavor.get('second_chance')) and not by_source
            and rules.transport(listener['protocol']) == 'TCP'):
        flags |= datapath.ServiceFlag.SECOND_CHANCE
    lengths: dict[str, Any] = {}
    if by_source:
        flags |= datapath.ServiceFlag.SOURCE
        lengths = _source_length(session.get('persistence_granularity'),
                                 version)
    return datapath.Settings(
        flags=flags, **_outer(flavor, is_proxied),
        idle_timeout_s=(session.get('persistence_timeout')
                        or _idle_time(document, listener)),
        **lengths, **common)


def _outer(flavor: Mapping[str, Any], is_proxied: bool
           ) -> dict[str, Any]:
    """Return how packets are carried to members without a tunnel. Proxies have
    tunnels, which second chances need this encapsulation for as well."""
    if is_proxied:
        return {'encapsulation': datapath.Encapsulation.GUE}
    return {'encapsulation': _ENCAPSULATIONS[
                flavor_keys.value(flavor, 'encapsulation')],
            'dscp': flavor.get('dscp', 0),
            'sid_function': flavor.get('srv6_function', 0)}


def _idle_time(document: spec.Document, listener: spec.Listener) -> int:
    """Return seconds, or 0 for the default, which the library shares."""
    wanted = spec.idle_time(document, listener)
    return 0 if wanted == flavor_keys.value({}, 'idle_timeout') else wanted


def _nat_idle_time(document: spec.Document, listener: spec.Listener,
                   share: agent_nat.Share) -> int:
    """Return seconds: the flavor's value, or else the share's, but no less
    than either end of the listener's connections may be silent."""
    if 'idle_timeout' in document['flavor']:
        return int(document['flavor']['idle_timeout'])
    return max(share.idle_times[rules.transport(listener['protocol'])],
               spec.longest_silence(listener))


def tunnel(document: spec.Document, member: spec.Member, listener_id: str,
           vip: str) -> datapath.Tunnel | None:
    """Return the datapath.Tunnel from a listener to a member. None stands for
    the settings' encapsulation to the member's own address.

    :param vip: the destination of the packets, in canonical form.
    """
    if 'tunnel' not in member:
        return None
    wanted = member['tunnel']
    return datapath.Tunnel(
        str(ipaddress.ip_address(wanted['address'])),
        _ENCAPSULATIONS[wanted['encapsulation']],
        spec.tunnel_key(document, wanted, listener_id, vip) or 0,
        spec.is_keyed(member), wanted.get('takes_alternative', False))


def overhead(settings: datapath.Settings, tunnel: datapath.Tunnel) -> int:
    """Return the bytes that a datapath.Tunnel adds to a packet, including
    the alternative member where the tunnel can carry it."""
    version = ipaddress.ip_address(tunnel.address).version
    taken = _IP_HEADER[version] + enumerations.SHIMS[tunnel.encapsulation]
    if (tunnel.takes_alternative
            and settings.flags & datapath.ServiceFlag.SECOND_CHANCE):
        taken += tunnels.ALTERNATIVE[version]
    return taken


def outer_address(settings: datapath.Settings, member: str,
                  tunnel: datapath.Tunnel | None = None) -> str:
    """Return the outer destination address of packets to a member."""
    if tunnel:
        address = ipaddress.ip_address(tunnel.address)
        if tunnel.encapsulation == datapath.Encapsulation.SRV6:
            address += tunnel.key
        return str(address)
    if settings.sid_function:
        return str(ipaddress.IPv6Address(
            int(ipaddress.IPv6Address(member)) & ~0xffff
            | settings.sid_function))
    return member


def _select_family(networks: Iterable[str], version: int
                   ) -> tuple[str, ...]:
    """Return those of the networks that have the VIP's family.

    If there are none, the result matches no client, as an empty list would
    allow all.
    """
    parsed = map(ipaddress.ip_network, networks)
    return tuple(sorted({str(network) for network in parsed
                         if network.version == version})) or _NOBODY[version]


def _source_length(granularity: str | None, vip_version: int
                   ) -> dict[str, Any]:
    """Return the setting for the prefix length of clients. A granularity of
    the other family is ignored, so the whole address counts."""
    if granularity is None:
        return {}
    version, length = persistence.prefix(granularity)
    if version != vip_version:
        return {}
    return {f'source_length_v{version}': length}
