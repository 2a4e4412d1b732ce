# SPDX-License-Identifier: Apache-2.0
"""What the result handler has done and how long it took, for Prometheus."""

import bisect
import itertools

import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.node import types

# Seconds from the probe's verdict to the switched table.
BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BOUNDS = [round(bound * 1e9) for bound in BUCKETS]  # nanoseconds
_PREFIX = 'octavia_xdp_result_handler_'


class Latency:
    """A histogram that takes many values at once."""

    def __init__(self):
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, times, now):
        """Take the time from each moment until now; nanoseconds.

        Moments that are still to come count as now.
        """
        times = sorted(times)
        end = bisect.bisect_right(times, now)
        self._sum += (end * now - sum(times[:end])) / 1e9
        end = len(times)
        for index, bound in enumerate(_BOUNDS):
            start = bisect.bisect_left(times, now - bound, 0, end)
            self._counts[index] += end - start
            end = start
        self._counts[-1] += end

    def collect(self):
        """Called by Prometheus' registry."""
        bounds = [str(bound) for bound in BUCKETS] + ['+Inf']
        totals = itertools.accumulate(self._counts)
        yield core.HistogramMetricFamily(
            _PREFIX + 'latency_seconds',
            'From the verdict of the health checker to the switched table',
            buckets=list(zip(bounds, totals, strict=True)),
            sum_value=self._sum)


class PacketOutcomes:
    """What the datapath has counted, as it was read last."""

    def __init__(self):
        self._counts = {}

    def set(self, counts):
        """Take {types.Outcome: types.OutcomeCounters}."""
        self._counts = counts

    def collect(self):
        """Called by Prometheus' registry."""
        packets = core.CounterMetricFamily(
            'octavia_xdp_outcome_packets',
            'Packets to VIPs by what happened to them, but for those '
            'forwarded, which services count', labels=['outcome'])
        octets = core.CounterMetricFamily(
            'octavia_xdp_outcome_bytes',
            'Bytes of these packets\' frames as they came in, from the '
            'Ethernet header on', labels=['outcome'])
        for outcome, counters in self._counts.items():
            packets.add_metric([outcome.name.lower()], counters.packets)
            octets.add_metric([outcome.name.lower()], counters.bytes)
        yield packets
        yield octets


class Metrics:
    """Counters and histogram, in a registry of their own."""

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        self._latency = Latency()
        self.registry.register(self._latency)
        self._files = self._counter('files', 'Queue files read', ['kind'])
        self._rejected = self._counter(
            'rejected_files', 'Queue files set aside', ['reason'])
        self._results = self._counter('results', 'Changed results applied')
        self._tables = self._counter('tables_switched', 'Tables switched')
        self._whole = self._counter(
            'comparisons', 'Comparisons of everything known with the tables')
        self._failures = self._counter(
            'failures', 'Attempts to apply results that failed')
        self._lost = self._counter(
            'lost_events', 'Times that the kernel had events no more')
        self._open_slots = prometheus_client.Gauge(
            'octavia_xdp_open_slots',
            'Slots of all tables that change owners, in which flows are '
            'remembered', registry=self.registry)
        self._outcomes = PacketOutcomes()
        self.registry.register(self._outcomes)
        self._stretch = prometheus_client.Gauge(
            _PREFIX + 'checker_stretch',
            'Factor on all intervals of the health checker; above 1 it '
            'cannot keep up, 0 before it has said', registry=self.registry)

    def _counter(self, name, text, labels=()):
        return prometheus_client.Counter(_PREFIX + name, text, labels,
                                         registry=self.registry)

    def file(self, kind):
        """A file of the queue was read."""
        self._files.labels(kind).inc()

    def rejected(self, reason):
        """A file was set aside."""
        self._rejected.labels(reason).inc()

    def applied(self, results, tables, whole):
        """Results went into the tables, and so many of these switched."""
        self._results.inc(results)
        self._tables.inc(tables)
        if whole:
            self._whole.inc()

    def took(self, times, now):
        """Results of these times are in the tables now (nanoseconds)."""
        self._latency.observe(times, now)

    def failed(self):
        """The datapath refused."""
        self._failures.inc()

    def lost(self):
        """The kernel dropped events, or the directory went away."""
        self._lost.inc()

    def datapath(self, open_slots, outcomes):
        """So many slots are open after a tick, and so much was counted."""
        self._open_slots.set(open_slots)
        self._outcomes.set({
            outcome: counters for outcome, counters in outcomes.items()
            if outcome not in (types.Outcome.PASS,
                               types.Outcome.FORWARDED)})

    def stretched(self, percent):
        """The health checker's intervals have this length."""
        self._stretch.set(percent / 100)

    def value(self, name, **labels):
        """The value of a sample, 0 if there is none; for tests."""
        return self.registry.get_sample_value(_PREFIX + name, labels) or 0
