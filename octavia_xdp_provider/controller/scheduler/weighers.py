# SPDX-License-Identifier: Apache-2.0
"""Which of the nodes that may take a load balancer is best.

A weigher is a callable ``(host, document) -> float``: greater is better.
Weighers are plugins in the namespace ``octavia_xdp.scheduler.weighers``;
``[placement] weighers`` names those that are used, the most important first:
a weigher decides only between nodes that are equal to those before it.
"""


def fewest_load_balancers(host, document):
    """Nodes that carry the fewest VIPs."""
    return -host.load_balancers


def fewest_services(host, document):
    """Nodes whose tables are used least, as a share of their size."""
    return -host.services / (host.report.get('services_max') or 1)
