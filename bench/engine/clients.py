# SPDX-License-Identifier: Apache-2.0
"""Addresses of plain clients, to which beds have routes."""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import ipaddress
import json

from bench import errors
from bench.beds import interface as beds

# From RFC 2544 and RFC 3849; definitions of beds use the same.
NETWORKS = {4: ipaddress.ip_network('198.18.0.0/16'),
            6: ipaddress.ip_network('2001:db8:18::/48')}


@contextlib.contextmanager
def at(hosts: Sequence[beds.Host], vip: str) -> Iterator[None]:
    """Give each host its own client address for the VIP, so that members
    answer on the bed's path for clients, which bypasses load balancers.

    :raises BenchError: a host has no route to the VIP.
    """
    version = ipaddress.ip_address(vip).version
    with contextlib.ExitStack() as stack:
        for number, host in enumerate(hosts, 1):
            own = NETWORKS[version][number]
            route = _route(host, vip)
            host.run(['ip', 'address', 'replace', str(own), 'dev', 'lo'])
            stack.callback(host.run, ['ip', 'address', 'delete', str(own),
                                      'dev', 'lo'], check=False)
            host.run([*route, 'src', str(own)])
            stack.callback(host.run, route, check=False)
        yield


def _route(host, vip):
    """Return the command that sets the host's present route to the VIP."""
    done = host.run(['ip', '-json', 'route', 'get', vip], check=False)
    routes = json.loads(done.stdout) if done.returncode == 0 else []
    if not routes or 'gateway' not in routes[0]:
        raise errors.BenchError(f'{host.name} has no route to {vip} by way of '
                                'a router or load balancer')
    return ['ip', 'route', 'replace', vip, 'via', routes[0]['gateway'], 'dev',
            routes[0]['dev']]
