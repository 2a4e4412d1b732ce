# SPDX-License-Identifier: Apache-2.0
"""Weighers: plugins that rank the nodes that may take a load balancer.

A weigher is a callable ``(host, document) -> float``: greater is better.
Weighers are plugins in the namespace ``octavia_xdp.scheduler.weighers``;
``[placement] weighers`` names those that are used, the most important first:
a weigher only decides between nodes that the earlier ones rank equal.
"""

from collections.abc import Callable

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.scheduler import cluster

Weigher = Callable[[cluster.Host, spec.Document], float]


def fewest_load_balancers(host: cluster.Host, document: spec.Document
                          ) -> float:
    """Prefer nodes with the fewest VIPs."""
    return -host.load_balancers


def fewest_services(host: cluster.Host, document: spec.Document) -> float:
    """Prefer nodes with the smallest used share of their tables."""
    return -host.services / int(host.report.get('services_max') or 1)
