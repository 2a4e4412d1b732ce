# SPDX-License-Identifier: Apache-2.0
"""Load balancers, nodes and placements for tests of the scheduler."""

import collections
import dataclasses

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import proxy_decision
from octavia_xdp_provider.controller.scheduler import weighers
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base

LIVE = clusters.Condition.LIVE
SILENT = clusters.Condition.SILENT
DEAD = clusters.Condition.DEAD
DISABLED = clusters.Condition.DISABLED


def balancer(key='lb', generation=1, **flavor):
    document = dict(base.document(), flavor=flavor)
    return rows.LoadBalancer(key, document, generation, 0, 0, (), False,
                                0.0)


def placed(host, key='lb', synced=1, error=None):
    return rows.Placement(key, host, synced, error, None)


def replaced(host):
    return dataclasses.replace(placed(host), replace=True)


def node(host, last_seen=0.0, in_service=True, zone=None, role=rows.LB,
         **report):
    return rows.Node(host, last_seen, in_service, report, zone=zone,
                     role=role)


def cluster(conditions, placements=(), reports=None, zones=None,
            role=rows.LB):
    """Return a Cluster.

    :param conditions: host → Condition, or names of live hosts.
    :param zones: host → zone.
    """
    if not isinstance(conditions, dict):
        conditions = dict.fromkeys(conditions, LIVE)
    return clusters.Cluster(
        [node(host, zone=(zones or {}).get(host), role=role,
              **(reports or {}).get(host, {}))
         for host in conditions],
        collections.Counter(row.host for row in placements), conditions)


def decider(conditions, placements=(), reports=None, replicas=2, zones=None,
            spread='prefer', role=rows.LB):
    deciding = (proxy_decision.ProxyDecider if role == rows.PROXY
                else decision.Decider)
    return deciding(
        cluster(conditions, placements, reports, zones, role),
        [filters.live, filters.capacity],
        [weighers.fewest_load_balancers, weighers.fewest_services],
        replicas, default_spread=spread)
