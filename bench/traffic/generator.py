# SPDX-License-Identifier: Apache-2.0
"""The project's own generator: live frames from XDP, and XDP sinks."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent import futures
import contextlib
import dataclasses
import random

from bench import errors
from bench.beds import interface as beds
from bench.traffic import formats
from bench.traffic import interface
from bench.traffic import merge
from bench.traffic import next_hops
from bench.traffic import programs
from bench.traffic import results
from bench.traffic import sinks
from bench.traffic import streams

CLOCK_STEP = 0.05  # seconds; less may be the time between two readings
STREAMS_MAX = formats.constants.STREAMS_MAX
RUNS = (1 << 16) // STREAMS_MAX


def _steps(before: dict[str, dict], after: dict[str, dict]) -> list[str]:
    """Return marks of clocks that were set meanwhile."""
    marks = []
    for name, first in before.items():
        last = after[name]
        step = ((last['realtime_ns'] - last['monotonic_ns']) -
                (first['realtime_ns'] - first['monotonic_ns'])) / 1e9
        if abs(step) > CLOCK_STEP:
            marks.append(f'the clock of {name} was set by {step:+.3f} s')
    return marks


def _one_clock(clocks: dict[str, dict]) -> bool:
    """Whether all hosts share a kernel."""
    return len({clock['boot'] for clock in clocks.values()}) == 1


class Traffic:
    """The generators and sinks of a bed, ready on their hosts; they run one
    measurement at a time.
    """

    def __init__(self, bed: beds.Bed, stack: contextlib.ExitStack):
        self._generators = bed.by_role(beds.GENERATOR)
        if not self._generators:
            raise errors.BenchError('nobody sends: the bed has no generator')
        self._paths = {host.name: programs.install(host)
                       for host in self._generators}
        self._sinks = sinks.Sinks(
            bed.by_role(beds.MEMBER) + bed.by_role(beds.SINK), stack)
        # Distinguishes this run from late packets of earlier ones.
        self._run = random.SystemRandom().randrange(RUNS)
        self._timeline: list[tuple[float, int, int]] = []

    def timeline(self) -> list[tuple[float, int, int]]:
        """Return (seconds since the start, sent, lost) of the last
        measurement, for each tenth of a second by the time of sending; empty
        after floods of SYNs."""
        return self._timeline

    def measure(self, profile: interface.Profile, rate: float | None,
                seconds: float, during: Callable[[], None] | None = None,
                background: Sequence[interface.Background] = (),
                ) -> interface.Measurement:
        """Send, wait until nothing more arrives, and compare.

        :param during: called in a separate thread once traffic flows; its
            exceptions are raised when the traffic has ended.
        :param background: traffic sent meanwhile by the same generators.
        :raises BenchError: generator or sink failed.
        """
        wanted = [interface.Background(profile, rate), *background]
        planned = self._plan(wanted, seconds)
        everything = [stream for part in planned.values() for stream in part]
        before = self._sinks.expect(everything)
        sent = self._send(planned, seconds, during, before)
        quiet = self._sinks.wait_until_quiet()
        collected, after = self._sinks.collect()
        sent_all, after_senders = sent
        parts = [[merge.Part(part[index], sent_all[part[index].id],
                             {name: sink.streams[part[index].id]
                              for name, sink in collected.items()})
                  for part in planned.values()]
                 for index in range(len(wanted))]
        lost = merge.find_losses(parts[0])
        measured = merge.measurement(parts[0], lost, collected, rate, seconds,
                                     _one_clock(before))
        self._timeline = [] if profile.kind == 'syn' else merge.timeline(lost)
        marks = measured.marks + _steps(before, after | after_senders)
        if not quiet:
            marks.append('packets still arrived '
                         f'{sinks.QUIET_MAX} seconds after the last was sent')
        if self._sinks.generic:
            marks.append('sinks without native XDP: ' +
                         ', '.join(self._sinks.generic))
        return dataclasses.replace(
            measured, marks=marks,
            background=[merge.counted(each) for each in parts[1:]])

    def _plan(self, wanted: Sequence[interface.Background], seconds: float,
              ) -> dict[str, list[streams.Stream]]:
        """Return the streams of each generator, in the order of `wanted`."""
        count = len(self._generators)
        if len(wanted) * count > STREAMS_MAX:
            raise errors.BenchError(
                f'{len(wanted)} kinds of traffic from {count} generators: up '
                f'to {STREAMS_MAX} streams are possible')
        for each in wanted:
            streams.check(each.profile, each.rate, seconds)
        self._run = (self._run + 1) % RUNS
        planned, identifier = {}, self._run * STREAMS_MAX
        for index, host in enumerate(self._generators):
            hops = next_hops.find(
                host, (destination.address for each in wanted
                       for destination in each.profile.destinations))
            planned[host.name] = []
            for each in wanted:
                rate = each.rate and each.rate / count
                planned[host.name].append(streams.make(
                    each.profile, rate, seconds,
                    {destination.address: hops[destination.address]
                     for destination in each.profile.destinations},
                    identifier, (index, count)))
                identifier += 1
        return planned

    def _send(self, planned: dict[str, list[streams.Stream]], seconds: float,
              during: Callable[[], None] | None, clocks: dict[str, dict],
              ) -> tuple[dict[int, results.Sent], dict[str, dict]]:
        """Return what was sent by stream id, and clocks of generators
        afterwards; add their clocks before to `clocks`."""
        with contextlib.ExitStack() as stack:
            senders = [self._start(host, planned[host.name], stack)
                       for host in self._generators]
            for sender in senders:
                clocks[sender.host.name] = sender.hear()
            for sender in senders:
                sender.tell('start')
            for sender in senders:
                sender.hear(streams.OPENING_SECONDS_MAX + programs.SECONDS)
            with futures.ThreadPoolExecutor(1) as pool:
                running = pool.submit(during or bool)
                after = {sender.host.name:
                         sender.hear(seconds + programs.SECONDS)
                         for sender in senders}
            running.result()
        sent: dict[int, results.Sent] = {}
        for host in self._generators:
            sent |= results.sent(host.read(host.folder / 'traffic-sent'),
                                 host.name)
        for each in sent.values():
            _check_link(each)
        return sent, after

    def _start(self, host: beds.Host, part: Sequence[streams.Stream],
               stack: contextlib.ExitStack) -> programs.Program:
        settings = programs.give(host, streams.send_file(part),
                                 'traffic-settings')
        sender = programs.Program(
            host, [self._paths[host.name], 'send', settings,
                   str(host.folder / 'traffic-sent')], 'traffic-send.log')
        stack.callback(sender.close)
        return sender


def _check_link(sent: results.Sent) -> None:
    """:raises BenchError: the link accepted no frame."""
    if sent.sent and sent.refused >= sent.sent + sent.opened:
        raise errors.BenchError(
            'the generator\'s link took none of its frames (error '
            f'{-sent.error}): the driver has to support XDP_REDIRECT to it, '
            'and the other end of a veth pair has to have an XDP program')


@contextlib.contextmanager
def opened(bed: beds.Bed) -> Iterator[Traffic]:
    """Start on the bed's generators, sinks and members."""
    with contextlib.ExitStack() as stack:
        yield Traffic(bed, stack)
