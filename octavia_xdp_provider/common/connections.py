# SPDX-License-Identifier: Apache-2.0
"""Limits of connections: which there can be, and each node's share.

Only a node that sees both directions knows which connections there are: to one
that sees clients' packets alone, packets with forged addresses would use a
limit up, and forged ends would lift it. So a limit is for ``forwarding`` nat.

LB nodes share no state. Each of those that announce the VIPs lets in its part
of a listener's limit, and all parts together are the limit; but each is 1 at
least, so that no client is refused because the router sent it to that node.
"""

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import spec

_TCP = ('TCP', 'HTTPS')

# Why there is no limit without NAT, and what to do instead.
ONLY_NAT: errors.Problem = (
    'only a listener of a load balancer whose flavor has forwarding nat can '
    'have a limit: otherwise LB nodes see what clients send and no answers, '
    'and cannot tell connections from forged packets',
    'leave it at -1 (no limit), use a flavor with forwarding nat, or limit '
    'what one source may open by a flavor with new_flow_rate')


def check(doc: spec.Document) -> None:
    """:raises Refused: names the option."""
    for listener in doc['listeners'].values():
        if not listener['connection_limit']:
            continue
        if not flavor.is_nat(doc['flavor']):
            raise errors.Refused('connection_limit', *ONLY_NAT)
        if listener['protocol'] not in _TCP:
            raise errors.Refused(
                'connection_limit', f'{listener["protocol"]} does not show '
                'when a connection begins and ends',
                'leave it at -1 (no limit), or limit what one source may open '
                'by a flavor with new_flow_rate')


def share(doc: spec.Document, listener: spec.Listener, host: str, vip: str
          ) -> int:
    """How many connections a node lets in at once, 0: as many as there are.

    :param vip: that they are for, in its one spelling: each has a part, too.

    A node that does not announce the VIPs yet begins with the part that it
    will have.
    """
    limit = listener['connection_limit']
    if not limit:
        return 0
    hosts = sorted({*doc.get('announcing', ()), host})
    addresses = spec.vips(doc)
    parts = len(hosts) * len(addresses)
    position = hosts.index(host) * len(addresses) + addresses.index(vip)
    return max(1, limit // parts + (position < limit % parts))


def announcing(doc: spec.Document, said: dict[str, bool | None]) -> list[str]:
    """The nodes that announce a load balancer's VIPs, as far as is known.

    :param said: host → whether it announces them, None where it has not said
        that: of nodes that are heard. If none does yet, it is all of them.
    """
    before = doc.get('announcing', [])
    found = {host for host, does in said.items()
             if does or (does is None and host in before)}
    return sorted(found or said)
