# SPDX-License-Identifier: Apache-2.0
"""Addresses of plain clients: those that beds have routes to."""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import ipaddress
import json

from bench import errors
from bench.beds import interface as beds

# RFC 2544 and RFC 3849, as definitions of beds have them.
NETWORKS = {4: ipaddress.ip_network('198.18.0.0/16'),
            6: ipaddress.ip_network('2001:db8:18::/48')}


@contextlib.contextmanager
def at(hosts: Sequence[beds.Host], vip: str) -> Iterator[None]:
    """Each host talks to the VIP from a client's address of its own: members
    answer on the path that the bed has for clients, past load balancers.

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
    """The words that make the host's present route to the VIP."""
    done = host.run(['ip', '-json', 'route', 'get', vip], check=False)
    found = json.loads(done.stdout) if done.returncode == 0 else []
    if not found or 'gateway' not in found[0]:
        raise errors.BenchError(f'{host.name} has no route to {vip} by way of '
                                'a router or load balancer')
    return ['ip', 'route', 'replace', vip, 'via', found[0]['gateway'], 'dev',
            found[0]['dev']]
