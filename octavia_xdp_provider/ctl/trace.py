# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl trace: packets of a VIP, before and after the program."""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import errno
import sys
import time
from typing import BinaryIO
from typing import TextIO

from octavia_xdp_provider.ctl import describe as words
from octavia_xdp_provider.ctl import frame as frames
from octavia_xdp_provider.ctl import links
from octavia_xdp_provider.ctl import outcome
from octavia_xdp_provider.ctl import pcapng
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node.datapath import DatapathError
from octavia_xdp_provider.process import interrupts

APPLICATION = 'octavia-xdp-ctl'
# Seconds that a read waits, and so the delay until an end is noticed.
_WAIT = 0.25


class File:
    """Writes copies of packets to a pcapng file."""

    def __init__(self, file: BinaryIO, snaplen: int) -> None:
        self._file = file
        self._writer = pcapng.Writer(file, APPLICATION)
        self._snaplen = snaplen
        self._interfaces: dict[tuple[int, bool], int] = {}
        self._kernel = links.Links()

    def _interface(self, copy: inspection.PacketCopy) -> int:
        key = copy.ifindex, copy.out
        if key not in self._interfaces:
            name = self._kernel.name(copy.ifindex)
            self._interfaces[key] = self._writer.interface(
                f'{name}@{"out" if copy.out else "in"}', self._snaplen)
        return self._interfaces[key]

    def write(self, copy: inspection.PacketCopy, when: int) -> None:
        marks = pcapng.Marks(copy.out, copy.number, copy.queue)
        if copy.out:
            marks = marks._replace(
                action=copy.action, comment=outcome.action_name(copy.action))
        self._writer.packet(self._interface(copy), when, copy.data,
                            copy.length, marks)

    def flush(self) -> None:
        self._file.flush()


class Text:
    """Writes copies of packets as lines of text."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._kernel = links.Links()

    def write(self, copy: inspection.PacketCopy, when: int) -> None:
        seconds = time.strftime('%H:%M:%S', time.localtime(when // 10 ** 9))
        self._file.write(
            f'{seconds}.{when % 10 ** 9 // 1000:06} '
            f'{self._kernel.name(copy.ifindex)} '
            f'{"out" if copy.out else "in "} {describe(copy)}\n')

    def flush(self) -> None:
        self._file.flush()


def describe(copy: inspection.PacketCopy) -> str:
    """Describe a copy of a packet."""
    packet = frames.decode(copy.data)
    # The data may be cut by the snaplen, so it is not called malformed.
    text = packet if isinstance(packet, frames.Ignored) else words.flow(
        packet.protocol, packet.source, packet.destination, packet.ports)
    text += f', frame of {copy.length} bytes'
    return f'{outcome.action_name(copy.action)}: {text}' if copy.out else text


Sink = File | Text


class Limit:
    """Ends after ``count`` packets, with both copies each, or ``seconds``."""

    def __init__(self, count: int, seconds: float) -> None:
        self._count = count
        self._end = time.monotonic() + seconds if seconds else None
        self._open: set[int] = set()
        self.packets = 0

    def takes(self, copy: inspection.PacketCopy) -> bool:
        """Return whether to write a copy."""
        if not copy.out:
            if self._count and self.packets == self._count:
                return False
            self.packets += 1
            self._open.add(copy.number)
            return True
        if copy.number not in self._open:
            return False
        self._open.discard(copy.number)
        return True

    def reached(self) -> bool:
        return (self._end is not None and time.monotonic() >= self._end) or (
            bool(self._count) and self.packets == self._count)

    @property
    def complete(self) -> bool:
        """Whether both copies of each packet have been written."""
        return not self._open


def _copy(trace: inspection.Trace, sink: Sink, limit: Limit,
          ended: Callable[[], bool]) -> None:
    while True:
        last = ended() or limit.reached()
        # Packets in progress at the end are still completed.
        copies = trace.read(0 if last and limit.complete else _WAIT)
        offset = time.time_ns() - time.monotonic_ns()
        for copy in copies:
            if limit.takes(copy):
                sink.write(copy, copy.time_ns + offset)
        sink.flush()
        if last and (limit.complete or not copies):
            return


@contextlib.contextmanager
def _sink(arguments: argparse.Namespace) -> Iterator[Sink]:
    if not arguments.write:
        yield Text(sys.stdout)
    elif arguments.write == '-':
        yield File(sys.stdout.buffer, arguments.snaplen)
    else:
        with open(arguments.write, 'wb') as file:
            yield File(file, arguments.snaplen)


def _explained(error: DatapathError) -> DatapathError:
    if error.errno == errno.EPERM:
        return DatapathError(
            error.errno, f'{error.text}. Tracing needs CAP_SYS_ADMIN, and a '
            'kernel whose security policy lets BPF programs trace')
    return error


def _doubt(node: inspection.Inspection, vip: str) -> str:
    is_vip = any(service.key.address == vip for service in node.services())
    return '' if is_vip else ', which is no VIP of this node'


def run(node: inspection.Inspection, arguments: argparse.Namespace) -> int:
    if arguments.write == '-' and sys.stdout.isatty():
        print('octavia-xdp-ctl: not writing a capture to a terminal',
              file=sys.stderr)
        return 2
    try:
        trace = node.trace(arguments.vip, every=arguments.every,
                           snaplen_bytes=arguments.snaplen,
                           buffer_bytes=arguments.buffer)
    except DatapathError as error:
        raise _explained(error) from error
    limit = Limit(arguments.count, arguments.seconds)
    with trace, interrupts.asked_to_end() as ended:
        with contextlib.suppress(BrokenPipeError), _sink(arguments) as sink:
            # Scripts wait for this line before they send packets.
            print(f'tracing {arguments.vip}' + _doubt(node, arguments.vip),
                  file=sys.stderr, flush=True)
            _copy(trace, sink, limit, ended)
        lost = trace.lost
    print(f'{limit.packets} packets'
          + (f', {lost} copies lost: a larger --buffer or --every helps'
             if lost else ''), file=sys.stderr)
    return 0
