# SPDX-License-Identifier: Apache-2.0
"""Filters: plugins that tell which nodes may take a load balancer.

Filters see the nodes of one role only (``host.role``): a load balancer is
placed on LB nodes and on proxy nodes by separate decisions.

A filter is a callable ``(host, document) -> str | None``: the reason why the
host must not be given the load balancer, or None. Filters are plugins in the
namespace ``octavia_xdp.scheduler.filters``; ``[placement] filters`` names
those that are used in addition to ``ALWAYS``. They apply to new placements
only and never take a load balancer from a node.
"""

from collections.abc import Callable

from octavia_xdp_provider.api import nat as nat_rules
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.scheduler import cluster
from octavia_xdp_provider.controller.store import rows

Filter = Callable[[cluster.Host, spec.Document], str | None]


def live(host: cluster.Host, document: spec.Document) -> str | None:
    """Accept nodes that report and are in service."""
    if host.condition is cluster.Condition.LIVE:
        return None
    return f'the node is {host.condition.value}'


def capacity(host: cluster.Host, document: spec.Document
             ) -> str | None:
    """Accept nodes with room for the load balancer's services.

    Each listener that a proxy node serves is one of its services.
    """
    most = host.report.get('services_max')
    needed = services(document, host.role)
    if most is None or host.services + needed <= most:
        return None
    return (f'the node has {host.services} of {most} services and this load '
            f'balancer needs {needed}')


def zone(host: cluster.Host, document: spec.Document) -> str | None:
    """Accept nodes in the load balancer's availability zone."""
    wanted = document['availability_zone'].get('zone')
    if wanted is None or host.zone == wanted:
        return None
    return (f'the node is in zone {host.zone!r}, the load balancer in '
            f'{wanted!r}')


def zero_touch(host: cluster.Host, document: spec.Document
               ) -> str | None:
    """Accept nodes that can reach members through their hypervisors."""
    if host.role != rows.LB or not spec.is_zero_touch(document):
        return None
    if not host.report.get('probe_through_datapath'):
        return ('the node does not send health checks as traffic, which is '
                'the only way to members behind hypervisors: set [agent] '
                'probe_through_datapath on it')
    return None


def nat(host: cluster.Host, document: spec.Document) -> str | None:
    """Accept nodes that can reach members by NAT."""
    if host.role != rows.LB or not flavor.is_nat(document['flavor']):
        return None
    problem = nat_rules.node_problem(host.report, document)
    return problem and f'the node cannot forward by NAT: {problem}'


def version(host: cluster.Host, document: spec.Document) -> str | None:
    """Nodes whose release supports the version of what they would be sent."""
    known = host.report.get('document_version', 1)
    needed = spec.needed_version(document)
    if known >= needed:
        return None
    return (f'the node supports documents up to version {known}, and this '
            f'load balancer needs {needed}: upgrade it')


# Filters of capabilities, which the configuration cannot turn off.
ALWAYS = (nat, version)


def services(document: spec.Document, role: rows.Role) -> int:
    """Return the maximum of services that a load balancer takes on a node."""
    if role == rows.PROXY:
        return len(tiers.proxied_listeners(document))
    return len(spec.vips(document)) * len(document['listeners'])
