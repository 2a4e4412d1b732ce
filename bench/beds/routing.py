# SPDX-License-Identifier: Apache-2.0
"""Routes as commands of ip."""

import ipaddress

from bench.beds import declaration


def command(route: declaration.Route) -> str:
    """Return the command without "ip"; flows are spread over next hops."""
    metrics = f' mtu {route.mtu}' if route.mtu else ''
    version = ipaddress.ip_network(route.to).version
    # The next hop may be of another family (RFC 8950).
    hops = [hop if ipaddress.ip_address(hop).version == version
            else f'inet6 {hop}' for hop in route.via]
    if len(hops) == 1:
        return f'route replace {route.to} via {hops[0]}{metrics}'
    return f'route replace {route.to}{metrics}' + ''.join(
        f' nexthop via {hop}' for hop in hops)
