# SPDX-License-Identifier: Apache-2.0
"""The exact losses of a stream: by flow, destination and time."""

from collections.abc import Sequence
import dataclasses

import numpy

from bench.traffic import flows
from bench.traffic import results
from bench.traffic import streams

TENTH = 0.1


@dataclasses.dataclass(frozen=True)
class Losses:
    """Losses of one stream, over all sinks.

    :ivar received: distinct packets received by any sink.
    :ivar duplicated: packets received again, by the same or another sink.
    :ivar flows: number of flows with loss.
    :ivar destinations: distinct packets received, by destination.
    :ivar timeline: (seconds, sent, lost) of each tenth of a second.
    """

    received: int
    duplicated: int
    flows: int
    destinations: list[int]
    timeline: list[tuple[float, int, int]]

    @property
    def lost(self) -> int:
        """Number of lost packets."""
        return sum(lost for _, _, lost in self.timeline)


def union(parts: Sequence[results.Received], length: int) -> numpy.ndarray:
    """Return bits, as bytes, of packets that any sink received."""
    bits = numpy.zeros((length + 7) // 8, numpy.uint8)
    for part in parts:
        numbers = part.numbers[:bits.size]
        bits[:numbers.size] |= numbers
    return bits


def _missing(received: numpy.ndarray, sent: int) -> numpy.ndarray:
    """Return numbers of missing packets."""
    # Check whole bytes first, since most are usually complete.
    suspect = numpy.flatnonzero(received != 0xff).astype(numpy.uint32)
    bits = numpy.unpackbits(received[suspect], bitorder='little')
    lost = numpy.flatnonzero(bits == 0).astype(numpy.uint32)
    numbers = suspect[lost >> numpy.uint32(3)] * numpy.uint32(8) + (
        lost & numpy.uint32(7))
    return numbers[numbers < sent]


def _by_time(sent: results.Sent, missing: numpy.ndarray,
             ) -> list[tuple[float, int, int]]:
    ends = numpy.cumsum(sent.timeline.astype(numpy.uint64))
    tenths = numpy.searchsorted(ends, missing, side='right')
    lost = numpy.bincount(tenths, minlength=ends.size)
    return [(round(index * TENTH, 1), int(count), int(lost[index]))
            for index, count in enumerate(sent.timeline)]


def of(stream: streams.Stream, sent: results.Sent,
       parts: Sequence[results.Received]) -> Losses:
    """Return the losses of a stream.

    :param parts: what each sink received.
    """
    received_bits = union(parts, sent.sent)
    missing = _missing(received_bits, sent.sent)
    numbers = flows.flows(missing, stream.flows, stream.seed)
    destinations = stream.slots[numbers % numpy.uint32(stream.slots.size)]
    lost = numpy.bincount(destinations, minlength=sent.destinations.size)
    received = sent.sent - missing.size
    return Losses(
        received,
        sum(part.received + part.duplicates for part in parts) - received,
        int(numpy.unique(numbers).size),
        [int(value) for value in sent.destinations - lost],
        _by_time(sent, missing))
