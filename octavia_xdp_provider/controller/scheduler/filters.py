# SPDX-License-Identifier: Apache-2.0
"""Which nodes may take a load balancer.

A filter is a callable ``(host, document) -> str | None``: the reason why the
host must not be given the load balancer, or None. Filters are plugins in the
namespace ``octavia_xdp.scheduler.filters``; ``[placement] filters`` names
those that are used, beside ``ALWAYS``. They are asked for new placements
only: what a node has it keeps until something better is there.
"""

from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import nat as nat_rules
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.scheduler import cluster


def live(host, document):
    """Nodes that report and are in service."""
    if host.condition is cluster.Condition.LIVE:
        return None
    return f'the node is {host.condition.value}'


def capacity(host, document):
    """Nodes with room for the load balancer's services."""
    most = host.report.get('services_max')
    needed = services(document)
    if most is None or host.services + needed <= most:
        return None
    return (f'the node has {host.services} of {most} services and this load '
            f'balancer needs {needed}')


def zone(host, document):
    """Nodes of the load balancer's availability zone."""
    wanted = document.get('availability_zone', {}).get('zone')
    if wanted is None or host.report.get('zone') == wanted:
        return None
    return (f'the node is in zone {host.report.get("zone")!r}, the load '
            f'balancer in {wanted!r}')


def zero_touch(host, document):
    """Nodes that can reach members through their hypervisors."""
    if not spec.is_zero_touch(document):
        return None
    problem = version_problem(document, host.report)
    if problem:
        return problem
    if not host.report.get('probe_through_datapath'):
        return ('the node does not send health checks as traffic, the only '
                'way to members of hypervisors: set [agent] '
                'probe_through_datapath on it')
    return None


def nat(host, document):
    """Nodes that can reach members by NAT."""
    if not flavor.is_nat(document['flavor']):
        return None
    problem = nat_rules.node_problem(host.report, document)
    return problem and f'the node cannot forward by NAT: {problem}'


def version_problem(document, report):
    """Why a node's release cannot reach members through their hypervisors,
    or None.

    :param report: what it reports of itself.
    """
    version = report.get('document_version', 0)
    what, needed = 'members of hypervisors', spec.TUNNELS_SINCE
    if len(spec.vips(document)) > 1:
        what = f'several VIPs with {what}'
        needed = spec.ADDITIONAL_KEYS_SINCE
    if spec.names_alternatives(document):
        what = f'a second chance with {what}'
        needed = spec.ALTERNATIVES_SINCE
    if spec.has_patience(document):
        what, needed = f'{what} that are moving', spec.PATIENCE_SINCE
    if version >= needed:
        return None
    return (f'the node knows documents up to version {version or "2"}, and '
            f'{what} need {needed}: upgrade it')


# What a node cannot do it is not given, whatever the operator prefers.
ALWAYS = (nat,)


def services(document):
    """Entries of a node's tables that a load balancer takes at most."""
    return len(spec.vips(document)) * len(document['listeners'])
