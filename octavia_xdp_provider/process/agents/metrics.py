# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics that both agents have."""

from collections.abc import Iterator
from collections.abc import Mapping
import time
from typing import Any

import prometheus_client
from prometheus_client import core

# Bounds of the histogram of a node's passes, in seconds.
NODE_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counters of passes and of failed calls. Thread-safe.

    :param prefix: of the metrics' names.
    :param bounds_s: bucket bounds of the histogram of durations.
    """

    def __init__(self, prefix: str, bounds_s: tuple[float, ...],
                 registry: prometheus_client.CollectorRegistry) -> None:
        self._passes = prometheus_client.Histogram(
            prefix + 'pass_seconds', 'Passes that apply what is wanted',
            buckets=bounds_s, registry=registry)
        self._failed_passes = prometheus_client.Counter(
            prefix + 'failed_passes', 'Passes that were given up',
            registry=registry)

    def passed(self, seconds: float) -> None:
        """Count a pass that has ended."""
        self._passes.observe(seconds)

    def pass_failed(self) -> None:
        self._failed_passes.inc()

    def failed(self, kind: str) -> None:
        """Count a failed call of the controller.

        :param kind: "link" or "heartbeat".
        """
        raise NotImplementedError


class NodeMetrics(Metrics):
    """Metrics of agents that call controllers as nodes do."""

    def __init__(self, prefix: str,
                 registry: prometheus_client.CollectorRegistry) -> None:
        super().__init__(prefix, NODE_BOUNDS_S, registry)
        self._failures = prometheus_client.Counter(
            prefix + 'rpc_failures', 'Talks with the controller, and '
            'heartbeats, that failed', ['kind'], registry=registry)
        for kind in ('link', 'heartbeat'):
            self._failures.labels(kind)

    def failed(self, kind: str) -> None:
        self._failures.labels(kind).inc()


class Collector:
    """Collects metrics when Prometheus scrapes; subclasses add their own.

    :param link: link.Link of the agent.
    """

    prefix: str

    def __init__(self, link: Any) -> None:
        self._link = link

    def describe(self) -> list[prometheus_client.Metric]:
        """Return nothing, so that registering collects nothing."""
        return []

    def collect(self) -> Iterator[prometheus_client.Metric]:
        """Yield all metrics; called by the registry."""
        yield self.gauge('controller_silence_seconds', 'Since a controller '
                         'has answered',
                         time.monotonic() - self._link.answered_at)

    def gauge(self, name: str, text: str, value: float
              ) -> core.GaugeMetricFamily:
        return core.GaugeMetricFamily(self.prefix + name, text, value=value)

    def gauges(self, name: str, text: str, label: str,
               values: Mapping[str, float]) -> core.GaugeMetricFamily:
        """Return one metric with a value for each value of a label."""
        family = core.GaugeMetricFamily(self.prefix + name, text,
                                        labels=[label])
        for key, value in values.items():
            family.add_metric([key], value)
        return family
