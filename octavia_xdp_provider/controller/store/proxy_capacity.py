# SPDX-License-Identifier: Apache-2.0
"""Whether proxy nodes can serve what a load balancer needs of them."""

from collections.abc import Collection
from collections.abc import Mapping

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers

# Option → what can be done without proxy nodes.
_INSTEAD = {
    'protocol': 'use TCP',
    'tls_enabled': 'leave it out, and use protocol HTTPS, with which members '
                   'end TLS',
    'session_persistence': 'use SOURCE_IP',
    'lb_algorithm': 'use SOURCE_IP_PORT or SOURCE_IP, or a flavor with '
                    'algorithms_served_by_hash',
    'connection_limit': 'leave it out, or use a flavor with forwarding nat',
    'flavor': 'use another flavor'}
_PROTOCOLS = {'TERMINATED_HTTPS': 'use HTTPS, with which members end TLS',
              'PROMETHEUS': 'leave this listener out'}


def check(before: spec.Document | None, after: spec.Document,
          nodes: Mapping[str, Mapping[str, int]], placed: Collection[str]
          ) -> None:
    """Check what is new in a document.

    :param nodes: reported numbers of the proxy nodes in service, by host.
    :param placed: the proxy nodes that the load balancer is on.
    :raises Refused: names the option that needs a proxy node, while there is
        none; or no proxy node has room.
    """
    old = _causes(before) if before else {}
    new = [cause for key, cause in sorted(_causes(after).items())
           if old.get(key) != cause]
    if new and not nodes:
        name, value = new[0]
        option = 'flavor' if name == 'forwarding' else name
        instead = _PROTOCOLS.get(str(value), _INSTEAD[option])
        raise errors.Refused(
            option, f'the value {value!r} needs a proxy node, and this cloud '
            'has none', f'{instead}, or ask the operator for proxy nodes')
    more = len(_causes(after)) - len(old)
    if more <= 0:
        return
    hosts = [host for host in placed if host in nodes] or list(nodes)
    full = [host for host in hosts if 'services_max' in nodes[host]
            and nodes[host].get('services', 0) + more
            > nodes[host]['services_max']]
    # A new load balancer needs any node, a placed one all of its nodes.
    if full and (placed or len(full) == len(hosts)):
        host, numbers = full[0], nodes[full[0]]
        raise errors.Refused(
            'listeners', 'the proxy nodes have no room for it',
            'use fewer listeners, or ask the operator for more proxy nodes',
            f'{host} has {numbers.get("services", 0)} of '
            f'{numbers["services_max"]} listeners and {more} more are needed')


def _causes(document: spec.Document) -> dict[str, tuple[str, object]]:
    """Return listener id → the option for which it needs proxy nodes."""
    causes = {key: tiers.cause(document, listener)
              for key, listener in document['listeners'].items()}
    return {key: cause for key, cause in causes.items() if cause}
