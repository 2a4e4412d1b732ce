# SPDX-License-Identifier: Apache-2.0
"""Connection limits: which are supported, and each node's share.

Those that LB nodes keep need ``forwarding`` nat, where nodes see both
directions; proxies keep the others (contracts/tiers.py). If a node saw only
packets of clients, packets with forged addresses could exhaust a limit, and
forged ends of connections could evade it.

LB nodes share no state. Each node that announces the VIPs accepts its share of
a listener's limit, and all shares add up to the limit; but each is at least 1,
so that no client is refused because the router sent it to that node.
"""

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec

_TCP = ('TCP', 'HTTPS')

# The problem of a limit that LB nodes would have to keep without NAT.
ONLY_NAT: errors.Problem = (
    'LB nodes can keep a limit only if the flavor has forwarding nat: '
    'otherwise they see what clients send and no answers, and cannot tell '
    'connections from forged packets',
    'leave it at -1 (no limit), use a flavor with forwarding nat or one that '
    'leaves forwarding open, with which proxies keep it, or limit what one '
    'source may open by a flavor with new_flow_rate')
NOTE = ('Moves a listener with protocol TCP or HTTPS to proxies, where '
        'clients beyond the limit wait, unless the flavor has forwarding '
        'nat, with which LB nodes keep it. Refused for UDP and SCTP, and '
        'with forwarding tunnel or zero_touch, unless it is -1 (no limit).')


def check(doc: spec.Document) -> None:
    """:raises Refused: names the option."""
    for listener in doc['listeners'].values():
        if not listener['connection_limit']:
            continue
        if listener['protocol'] not in _TCP:
            raise errors.Refused(
                'connection_limit', f'{listener["protocol"]} does not show '
                'when a connection begins and ends',
                'leave it at -1 (no limit), or limit what one source may open '
                'by a flavor with new_flow_rate')
        if not flavor.is_nat(doc['flavor']):
            raise errors.Refused('connection_limit', *ONLY_NAT)


def share(doc: spec.Document, listener: spec.Listener, host: str, vip: str
          ) -> int:
    """Return the concurrent connections that a node accepts; 0: no limit.

    A node that does not announce the VIPs yet starts with its future share.

    :param vip: destination of the connections, in canonical spelling; the
        limit is also divided among VIPs.
    """
    limit = listener['connection_limit']
    if not limit:
        return 0
    hosts = sorted({*doc.get('announcing', ()), host})
    addresses = spec.vips(doc)
    parts = len(hosts) * len(addresses)
    position = hosts.index(host) * len(addresses) + addresses.index(vip)
    return part(limit, parts, position)


def part(limit: int, parts: int, position: int) -> int:
    """Return one of the parts of a limit, which add up to it; but each is at
    least 1."""
    return max(1, limit // parts + (position < limit % parts))


def announcing(doc: spec.Document, said: dict[str, bool | None]) -> list[str]:
    """Return the nodes that announce a load balancer's VIPs.

    :param said: by host of each live node whether it announces them; None if
        it has not reported that. If no node announces them, all are returned.
    """
    before = doc.get('announcing', [])
    hosts = {host for host, announces in said.items()
             if announces or (announces is None and host in before)}
    return sorted(hosts or said)
