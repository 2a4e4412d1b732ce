# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the result handler."""

import bisect
import itertools

import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.node import types

# Bounds in seconds, from the probe's verdict to the switched table.
BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BOUNDS = [round(bound * 1e9) for bound in BUCKETS]  # nanoseconds
_PREFIX = 'octavia_xdp_result_handler_'


class Latency:
    """A histogram that takes many values at once."""

    def __init__(self):
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, times, now):
        """Add the time from each moment until now, all in nanoseconds.

        Moments in the future count as now.
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
    """The datapath's counters of outcomes, as last read."""

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
        """Count a file of the queue that was read."""
        self._files.labels(kind).inc()

    def rejected(self, reason):
        """Count a file that was set aside."""
        self._rejected.labels(reason).inc()

    def applied(self, results, tables, whole):
        """Count applied results and switched tables.

        :param whole: whether everything known was compared.
        """
        self._results.inc(results)
        self._tables.inc(tables)
        if whole:
            self._whole.inc()

    def took(self, times, now):
        """Record that results from these times are in the tables (ns)."""
        self._latency.observe(times, now)

    def failed(self):
        """Count a failed attempt to apply results."""
        self._failures.inc()

    def lost(self):
        """Count a loss of events, because of too many or a new directory."""
        self._lost.inc()

    def datapath(self, open_slots, outcomes):
        """Set the open slots and the outcomes after a tick."""
        self._open_slots.set(open_slots)
        self._outcomes.set({
            outcome: counters for outcome, counters in outcomes.items()
            if outcome not in (types.Outcome.PASS,
                               types.Outcome.FORWARDED)})

    def stretched(self, percent):
        """Set the length of the health checker's intervals in percent."""
        self._stretch.set(percent / 100)

    def value(self, name, **labels):
        """Return the value of a sample, or 0; for tests."""
        return self.registry.get_sample_value(_PREFIX + name, labels) or 0
