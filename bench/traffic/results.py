# SPDX-License-Identifier: Apache-2.0
"""What octavia-xdp-traffic wrote: sent by generators, received by sinks."""

import dataclasses

import numpy

from bench.traffic import formats

CONSTANTS = formats.constants


@dataclasses.dataclass(frozen=True)
class Sent:
    """Of a stream.

    :ivar refused: of them, by the link.
    :ivar last_ns: from the start to the last packet.
    :ivar destinations: packets by destination.
    :ivar timeline: packets of each tenth of a second.
    """

    id: int
    sent: int
    opened: int
    refused: int
    last_ns: int
    late: int
    complete: bool
    error: int
    destinations: numpy.ndarray
    timeline: numpy.ndarray


@dataclasses.dataclass(frozen=True)
class Received:
    """Of a stream, by one sink.

    :ivar numbers: a bit for each packet, as bytes.
    """

    id: int
    received: int
    duplicates: int
    reordered: int
    opened: int
    invalid: int
    early: int
    latency_max: int
    destinations: numpy.ndarray
    latencies: numpy.ndarray
    numbers: numpy.ndarray


@dataclasses.dataclass(frozen=True)
class SinkResult:
    """Of one sink: streams by identifier, and what was none of them."""

    streams: dict[int, Received]
    foreign: dict[str, int]


def sent(data: bytes, what: str) -> dict[int, Sent]:
    """What ``send`` wrote, by identifier.

    :param what: for messages.
    :raises BenchError: that is not what it wrote.
    """
    reader = formats.Reader(data, what)
    found = {}
    for _ in range(reader.head('sent_file').streams):
        each = reader.structure('stream_sent')
        found[each.id] = Sent(
            each.id, each.sent, each.opened, each.refused, each.last_ns,
            each.late, bool(each.complete), each.error,
            numpy.frombuffer(reader.bytes(8 * each.destinations), '<u8'),
            numpy.frombuffer(reader.bytes(4 * each.timeline), '<u4'))
    return found


def _received(reader: formats.Reader) -> Received:
    each = reader.structure('stream_result')
    counters = each.counters
    return Received(
        each.id, counters.received, counters.duplicates, counters.reordered,
        counters.opened, counters.invalid, counters.early,
        counters.latency_max,
        numpy.frombuffer(reader.bytes(8 * each.destinations), '<u8'),
        numpy.frombuffer(reader.bytes(8 * CONSTANTS.LATENCY_BUCKETS), '<u8'),
        numpy.frombuffer(reader.bytes(8 * each.words), numpy.uint8))


def received(data: bytes, what: str) -> SinkResult:
    """What ``receive`` wrote.

    :raises BenchError: that is not what it wrote.
    """
    reader = formats.Reader(data, what)
    head = reader.head('result_file')
    streams = [_received(reader) for _ in range(head.streams)]
    return SinkResult({each.id: each for each in streams},
                      {name: head.foreign[index]
                       for name, index in formats.FOREIGN.items()})
