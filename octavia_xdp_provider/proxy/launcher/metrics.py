# SPDX-License-Identifier: Apache-2.0
"""Metrics of the launcher."""

import collections

import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.contracts import proxy_launch


class Metrics:
    """Counts of load balancers by phase, and of restarts.

    :param states: by load balancer; somebody else changes them.
    """

    def __init__(self, states: dict[str, proxy_launch.State]) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._states = states
        self.registry.register(self)

    def collect(self) -> list[prometheus_client.Metric]:
        """Called by Prometheus' registry."""
        states = list(self._states.values())
        phases = collections.Counter(state['phase'] for state in states)
        gauge = core.GaugeMetricFamily(
            'octavia_xdp_proxy_processes',
            'Load balancers by what the launcher has reached for them',
            labels=['phase'])
        for phase in ('waiting', 'running', 'refused', 'failed', 'stopping'):
            gauge.add_metric([phase], phases[phase])
        return [gauge, core.GaugeMetricFamily(
            'octavia_xdp_proxy_restarts',
            'Restarts of HAProxy processes that had died, of load balancers '
            'that are here now', value=sum(state['restarts']
                                           for state in states))]
