# SPDX-License-Identifier: Apache-2.0
"""Merges what generators sent and sinks received into a measurement."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

import numpy

from bench import endpoint
from bench.traffic import interface
from bench.traffic import latency
from bench.traffic import losses
from bench.traffic import results
from bench.traffic import streams

REACHED = 0.99  # of the requested rate; a lower one is marked
UNEXPECTED = ('udp', 'tunnelled', 'fragment', 'stream', 'other')


@dataclasses.dataclass(frozen=True)
class Part:
    """A generator's stream, and what each sink received of it."""

    stream: streams.Stream
    sent: results.Sent
    received: Mapping[str, results.Received]

    def total(self, counter: str) -> int:
        """Return the sum of a counter over all sinks."""
        return sum(getattr(each, counter) for each in self.received.values())


def _is_flood(profile: interface.Profile) -> bool:
    return profile.kind == 'syn'


def _seconds(parts: Sequence[Part], asked: float) -> float:
    """Return the time until all parts were sent."""
    if all(_ran_out(part) or not part.sent.complete for part in parts):
        return max(part.sent.last_ns for part in parts) / 1e9 or asked
    return asked


def _ran_out(part: Part) -> bool:
    return part.stream.rate is None and part.sent.sent >= part.stream.packets


def _rate_marks(parts: Sequence[Part], rate: float | None,
                seconds: float) -> list[str]:
    marks = []
    sent = sum(part.sent.sent for part in parts)
    if rate is not None and sent < rate * seconds * REACHED - 1:
        marks.append(f'rate not reached: {sent / seconds:.0f} of {rate:.0f}')
    for part in parts:
        if _ran_out(part):
            marks.append(f'ended after {part.stream.packets} packets, the '
                         'most that the sinks keep bits for')
        elif not part.sent.complete:
            marks.append('ended early')
    return marks


def silence_marks(sent: int, received: int) -> list[str]:
    """Return a mark if nothing arrived."""
    if sent and not received:
        return ['not one packet arrived: is there a route to the sinks, and '
                "does the other end of the generator's link take frames of "
                'XDP (on veth it needs an XDP program)?']
    return []


def _counter_marks(parts: Sequence[Part]) -> list[str]:
    marks = []
    invalid = sum(part.total('invalid') for part in parts)
    early = sum(part.total('early') for part in parts)
    refused = sum(part.sent.refused for part in parts)
    if invalid:
        marks.append('numbers that were never sent: '
                     f'{invalid} packets')
    if early:
        marks.append('received before they were sent, as the clocks of '
                     f'generator and sink differ: {early} packets')
    if refused:
        marks.append("lost at the generator's link, whose queue was full: "
                     f'{refused} packets')
    opened, got = _opened(parts)
    if got < opened and not _is_flood(parts[0].stream.profile):
        marks.append('lost packets that open flows: '
                     f'{opened - got} of {opened}')
    return marks


def foreign_of(sinks: Mapping[str, results.SinkResult],
             ) -> tuple[dict[str, int], list[str]]:
    """Return foreign packets by kind, and marks of unexpected ones."""
    total: dict[str, int] = {}
    marks = []
    for name, sink in sinks.items():
        for kind, count in sink.foreign.items():
            if not count:
                continue
            total[kind] = total.get(kind, 0) + count
            if kind in UNEXPECTED:
                marks.append(f'foreign traffic at {name}: {count} packets '
                             f'({kind})')
    return total, marks


def _opened(parts: Sequence[Part]) -> tuple[int, int]:
    return (sum(part.sent.opened for part in parts),
            sum(part.total('opened') for part in parts))


def _by_receiver(parts, receivers, counter):
    return {name: sum(getattr(part.received[name], counter) for part in parts)
            for name in receivers}


def _by_destination(parts: Sequence[Part],
                    lost: Sequence[losses.Losses],
                    ) -> dict[str, tuple[int, int]]:
    totals: dict[str, tuple[int, int]] = {}
    for part, loss in zip(parts, lost, strict=True):
        for destination, sent, received in zip(
                part.stream.profile.destinations, part.sent.destinations,
                loss.destinations, strict=True):
            key = endpoint.text(destination.address, destination.port)
            before = totals.get(key, (0, 0))
            totals[key] = (before[0] + int(sent), before[1] + received)
    return totals


def _latency(parts: Sequence[Part]) -> dict[str, float] | None:
    every = [each for part in parts for each in part.received.values()]
    if not every:
        return None
    return latency.percentiles(
        numpy.sum([each.latencies for each in every], axis=0),
        max(each.latency_max for each in every)) or None


def timeline(lost: Sequence[losses.Losses]) -> list[tuple[float, int, int]]:
    """Return the timeline of all streams together."""
    total: dict[float, tuple[int, int]] = {}
    for each in lost:
        for at, sent, missing in each.timeline:
            before = total.get(at, (0, 0))
            total[at] = (before[0] + sent, before[1] + missing)
    return [(at, *total[at]) for at in sorted(total)]


def find_losses(parts: Sequence[Part]) -> list[losses.Losses]:
    """Return the losses of each stream."""
    return [losses.of(part.stream, part.sent, list(part.received.values()))
            for part in parts]


def counted(parts: Sequence[Part]) -> tuple[int, int]:
    """Return (sent, received) of background streams."""
    sent = sum(part.sent.sent for part in parts)
    if _is_flood(parts[0].stream.profile):
        return sent, sum(part.total('opened') for part in parts)
    return sent, sum(each.received for each in find_losses(parts))


def _flood(measurement: interface.Measurement, parts: Sequence[Part],
           ) -> interface.Measurement:
    """Return a flood's measurement: counts only, as SYNs carry no number."""
    received = sum(part.total('opened') for part in parts)
    return dataclasses.replace(
        measurement, received=received,
        lost=max(measurement.sent - received, 0), flows_with_loss=0,
        duplicated=max(received - measurement.sent, 0), latency_ns=None,
        by_receiver=_by_receiver(parts, parts[0].received, 'opened'),
        by_destination={}, opened=(measurement.sent, received),
        marks=[*measurement.marks,
               'a flood of SYNs: counted, without numbers'])


def measurement(parts: Sequence[Part], lost: Sequence[losses.Losses],
                sinks: Mapping[str, results.SinkResult], rate: float | None,
                seconds: float, one_clock: bool) -> interface.Measurement:
    """Return the measurement of all streams of one profile.

    :param rate: requested rate of all together.
    :param one_clock: whether generators and sinks share a clock.
    """
    foreign, foreign_marks = foreign_of(sinks)
    spent = _seconds(parts, seconds)
    merged = interface.Measurement(
        seconds=spent, asked=rate,
        sent=sum(part.sent.sent for part in parts),
        received=sum(each.received for each in lost),
        lost=sum(each.lost for each in lost),
        duplicated=sum(each.duplicated for each in lost),
        reordered=sum(part.total('reordered') for part in parts),
        reordered_by_receiver=_by_receiver(parts, sinks, 'reordered'),
        foreign=sum(foreign.values()),
        flows_with_loss=sum(each.flows for each in lost),
        latency_ns=_latency(parts) if one_clock else None,
        by_receiver=_by_receiver(parts, sinks, 'received'),
        by_destination=_by_destination(parts, lost),
        marks=[*_rate_marks(parts, rate, spent), *_counter_marks(parts),
               *foreign_marks],
        refused=sum(part.sent.refused for part in parts),
        opened=_opened(parts), foreign_by_kind=foreign)
    if _is_flood(parts[0].stream.profile):
        merged = _flood(merged, parts)
    merged.marks.extend(silence_marks(merged.sent, merged.received))
    return merged
