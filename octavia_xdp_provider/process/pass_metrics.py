# SPDX-License-Identifier: Apache-2.0
"""Metrics of the passes of both agents."""

import prometheus_client


class PassMetrics:
    """Counters of passes. Thread-safe.

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
