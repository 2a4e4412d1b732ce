# SPDX-License-Identifier: Apache-2.0
"""Reads results of octavia-xdp-traffic, of generators and sinks."""

import dataclasses

import numpy

from bench.traffic import formats

CONSTANTS = formats.constants


@dataclasses.dataclass(frozen=True)
class Sent:
    """The packets of a stream that were sent.

    :ivar refused: packets refused by the link.
    :ivar last_ns: time from the start to the last packet.
    :ivar destinations: packets by destination.
    :ivar timeline: packets of each tenth of a second.
    """

    id: int
    sent: int
    opened: int
    refused: int
    last_ns: int
    complete: bool
    error: int
    destinations: numpy.ndarray
    timeline: numpy.ndarray


@dataclasses.dataclass(frozen=True)
class Received:
    """The packets of a stream that a sink received.

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
    """The packets that a sink received: streams by id, others by kind."""

    streams: dict[int, Received]
    foreign: dict[str, int]


def sent(data: bytes, what: str) -> dict[int, Sent]:
    """Parse the file of ``send``; return streams by id.

    :param what: name of the data for errors.
    :raises BenchError: the data are malformed.
    """
    reader = formats.Reader(data, what)
    streams = {}
    for _ in range(reader.head('sent_file').streams):
        stream = reader.structure('stream_sent')
        streams[stream.id] = Sent(
            stream.id, stream.sent, stream.opened, stream.refused,
            stream.last_ns, bool(stream.complete), stream.error,
            numpy.frombuffer(reader.bytes(8 * stream.destinations), '<u8'),
            numpy.frombuffer(reader.bytes(4 * stream.timeline), '<u4'))
    return streams


def _received(reader: formats.Reader) -> Received:
    stream = reader.structure('stream_result')
    counters = stream.counters
    return Received(
        stream.id, counters.received, counters.duplicates, counters.reordered,
        counters.opened, counters.invalid, counters.early,
        counters.latency_max,
        numpy.frombuffer(reader.bytes(8 * stream.destinations), '<u8'),
        numpy.frombuffer(reader.bytes(8 * CONSTANTS.LATENCY_BUCKETS), '<u8'),
        numpy.frombuffer(reader.bytes(8 * stream.words), numpy.uint8))


def received(data: bytes, what: str) -> SinkResult:
    """Parse the file of ``receive``.

    :raises BenchError: the data are malformed.
    """
    reader = formats.Reader(data, what)
    head = reader.head('result_file')
    streams = [_received(reader) for _ in range(head.streams)]
    return SinkResult({each.id: each for each in streams},
                      {name: head.foreign[index]
                       for name, index in formats.FOREIGN.items()})
