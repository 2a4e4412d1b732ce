# SPDX-License-Identifier: Apache-2.0
"""TRex as a generator, by its stateless API, with the project's own sinks."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import random

import numpy

from bench import errors
from bench.beds import interface as beds
from bench.traffic import interface
from bench.traffic import losses
from bench.traffic import meanwhile
from bench.traffic import merge
from bench.traffic import results
from bench.traffic import sinks
from bench.traffic import streams
from bench.traffic import trex_rpc
from bench.traffic import trex_streams

ADDRESS, SERVICE, PORT = '127.0.0.1', 4501, 0
RUNS = 1 << 16


class TrexTraffic:
    """See interface.Traffic; runs one measurement at a time.

    :param port: sending port of TRex.
    """

    def __init__(self, bed: beds.Bed, stack: contextlib.ExitStack,
                 address: str, service: int, port: int):
        generators = bed.by_role(beds.GENERATOR)
        if len(generators) != 1:
            raise errors.BenchError(
                f'the bed has {len(generators)} generators; traffic of trex '
                'comes from one')
        self._session = trex_rpc.Session(generators[0], address, service,
                                         port, stack)
        self._sinks = sinks.Sinks(
            bed.by_role(beds.MEMBER) + bed.by_role(beds.SINK), stack)
        self._run = random.SystemRandom().randrange(RUNS)

    def timeline(self) -> list[tuple[float, int, int]]:
        """Return nothing: TRex does not report when packets were sent."""
        return []

    def measure(self, profile: interface.Profile, rate: float | None,
                seconds: float, during: Callable[[], None] | None = None,
                background: Sequence[interface.Background] = (),
                ) -> interface.Measurement:
        """See interface.Traffic."""
        if background:
            raise errors.BenchError('trex has no traffic beside what is '
                                    'measured here; the source own has')
        streams.check(profile, rate, seconds)
        trex_streams.check(profile)
        self._run = (self._run + 1) % RUNS
        expected = trex_streams.expected(profile, rate, seconds, self._run)
        self._sinks.expect([expected])
        sent = self._send(profile, rate, seconds, during)
        quiet = self._sinks.wait_until_quiet()
        found, _ = self._sinks.collect()
        measured = _measurement(profile, found, self._run, sent, rate,
                                seconds)
        if not quiet:
            measured.marks.append(
                'packets still arrived '
                f'{sinks.QUIET_MAX} seconds after the last was sent')
        return measured

    def _send(self, profile: interface.Profile, rate: float | None,
              seconds: float, during: Callable[[], None] | None) -> int:
        """Send, and return the number of packets."""
        parts = trex_streams.parts(profile)
        session = self._session
        session.own('remove_all_streams')
        for part in parts:
            session.own('add_stream', stream_id=part.index + 1,
                        stream=trex_streams.stream(part, profile, self._run,
                                                   len(parts)))
        before = session.sent()
        multiplier = ({'type': 'pps', 'op': 'abs', 'value': rate}
                      if rate is not None else
                      {'type': 'percentage', 'op': 'abs', 'value': 100})
        session.own('start_traffic', mul=multiplier, duration=seconds,
                    force=rate is None, core_mask=2 ** 64 - 1)
        with meanwhile.run(during):
            session.wait_until_sent(seconds + trex_rpc.SECONDS)
        return session.sent() - before


def _numbers(parts: Sequence[results.Received]) -> numpy.ndarray:
    """Return the sorted numbers of received packets, without duplicates."""
    length = max(part.numbers.size for part in parts)
    bits = losses.union(parts, 8 * length)
    return numpy.flatnonzero(numpy.unpackbits(bits, bitorder='little'))


def _assigned(numbers: numpy.ndarray, count: int,
              ) -> tuple[list[tuple[int, int]], numpy.ndarray]:
    """Return (sent, received) of each stream, as far as received packets tell,
    and the missing numbers."""
    totals, missing = [], [numpy.zeros(0, numpy.int64)]
    for index in range(count):
        own = numbers[numbers % count == index] // count
        sent = int(own.max()) + 1 if own.size else 0
        totals.append((sent, int(own.size)))
        missing.append(numpy.setdiff1d(numpy.arange(sent), own) * count +
                       index)
    return totals, numpy.concatenate(missing)


def _by_destination(profile: interface.Profile,
                    totals: Sequence[tuple[int, int]],
                    ) -> dict[str, tuple[int, int]]:
    by_key: dict[str, tuple[int, int]] = {}
    for part, (sent, received) in zip(trex_streams.parts(profile), totals,
                                      strict=True):
        key = merge.key_of(part.destination.address, part.destination.port)
        before = by_key.get(key, (0, 0))
        by_key[key] = (before[0] + sent, before[1] + received)
    return by_key


def _marks(sent: int, received: int, missing: int, rate: float | None,
           seconds: float) -> list[str]:
    marks = merge.silence_marks(sent, received)
    if rate is not None and sent < rate * seconds * merge.REACHED - 1:
        marks.append(f'rate not reached: {sent / seconds:.0f} of {rate:.0f}')
    if received > sent:
        marks.append(f"TRex's port counted {sent} packets, of which "
                     f'{received} arrived')
    elif sent - received > missing:
        marks.append(f'{sent - received - missing} packets lost of which it '
                     'is not known where they were to go: the last ones')
    return marks


def _measurement(profile: interface.Profile,
                 found: dict[str, results.SinkResult], identifier: int,
                 sent: int, rate: float | None, seconds: float,
                 ) -> interface.Measurement:
    every = {name: sink.streams[identifier] for name, sink in found.items()}
    numbers = _numbers(list(every.values()))
    totals, missing = _assigned(numbers, len(trex_streams.parts(profile)))
    received = int(numbers.size)
    foreign, marks = merge.foreign_of(found)
    return interface.Measurement(
        seconds=seconds, asked=rate, sent=max(sent, received),
        received=received, lost=max(sent - received, 0),
        duplicated=sum(each.received + each.duplicates
                       for each in every.values()) - received,
        reordered=sum(each.reordered for each in every.values()),
        foreign=sum(foreign.values()),
        flows_with_loss=len(trex_streams.losses(profile, missing)),
        latency_ns=None,
        by_receiver={name: each.received for name, each in every.items()},
        by_destination=_by_destination(profile, totals),
        marks=_marks(sent, received, int(missing.size), rate, seconds) + marks,
        foreign_by_kind=foreign,
        reordered_by_receiver={name: each.reordered
                               for name, each in every.items()})


class Trex:
    """See interface.Source.

    :param address: address of TRex on its own host.
    :param service: TCP port for requests.
    :param port: sending port of TRex.
    """

    name = 'trex'

    def __init__(self, address: str = ADDRESS, service: int = SERVICE,
                 port: int = PORT):
        self._address, self._service, self._port = address, service, port

    @contextlib.contextmanager
    def open(self, bed: beds.Bed) -> Iterator[TrexTraffic]:
        """See interface.Source."""
        with contextlib.ExitStack() as stack:
            yield TrexTraffic(bed, stack, self._address, self._service,
                              self._port)
