# SPDX-License-Identifier: Apache-2.0
"""What is sent, and what is found to have arrived.

Payloads carry a signature: run, flow, sequence number, time. What is received
without it is foreign, and counted apart: zero loss means zero.
"""

from collections.abc import Callable
from collections.abc import Sequence
import contextlib
import dataclasses
from typing import Protocol

from bench.beds import interface


@dataclasses.dataclass(frozen=True)
class Destination:
    """Where a part of the traffic goes. Weights are shares, of their sum."""

    address: str
    port: int
    protocol: str = 'udp'  # tcp, udp or quic
    weight: int = 1


@dataclasses.dataclass(frozen=True)
class Profile:
    """One kind of traffic.

    :param flows: 5-tuples, over all destinations; 0: each packet another one.
    :param sizes: of frames, without FCS: (bytes, weight). IMIX has several.
    :param kind: established (no SYN), opened (a SYN first, for each flow), or
        syn (nothing else).
    :param sources: network of the clients; a flood takes all of it.
    :param sources_v6: the same, to destinations of IPv6.
    """

    destinations: tuple[Destination, ...]
    flows: int = 1024
    sizes: tuple[tuple[int, int], ...] = ((64, 1),)
    kind: str = 'established'
    sources: str = '198.18.0.0/16'
    sources_v6: str = '2001:2:0:1::/64'


@dataclasses.dataclass(frozen=True)
class Background:
    """Traffic beside what is measured, as a flood of SYNs.

    :param rate: packets/s; None: as fast as possible.
    """

    profile: Profile
    rate: float | None = None


@dataclasses.dataclass
class Measurement:
    """What came of a time of sending.

    :ivar seconds: of sending.
    :ivar asked: packets/s; None: as fast as possible.
    :ivar lost: sent and not received, by signature.
    :ivar foreign: received without the signature of this run.
    :ivar reordered: a later one of the same flow came before.
    :ivar latency_ns: from the generator to the sink, by name of the percentile
        (p50, p90, p99, p999, max); None: clocks are not comparable.
    :ivar by_receiver: packets by name of the host that received them.
    :ivar by_destination: (sent, received) by 'address:port'.
    :ivar flows_with_loss: how many of the flows lost any.
    :ivar marks: why the figure is not what was asked for, as in 'rate not
        reached: 812000 of 1000000'; a result with marks is shown with them.
    :ivar refused: of those lost, what the generator's own link did not take:
        on veth the queue of its peer, else that of the network card.
    :ivar opened: (sent, received) packets that open flows; in none of the
        other figures, but for floods of SYNs.
    :ivar foreign_by_kind: as FOREIGN_… in src/format.h.
    :ivar background: (sent, received) of each traffic beside.
    :ivar reordered_by_receiver: by name of the host that received them.
    """

    seconds: float
    asked: float | None
    sent: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    foreign: int
    flows_with_loss: int
    latency_ns: dict[str, float] | None
    by_receiver: dict[str, int]
    by_destination: dict[str, tuple[int, int]]
    marks: list[str] = dataclasses.field(default_factory=list)
    refused: int = 0
    opened: tuple[int, int] = (0, 0)
    foreign_by_kind: dict[str, int] = dataclasses.field(default_factory=dict)
    background: list[tuple[int, int]] = dataclasses.field(
        default_factory=list)
    reordered_by_receiver: dict[str, int] = dataclasses.field(
        default_factory=dict)

    @property
    def rate(self) -> float:
        """Received packets/s."""
        return self.received / self.seconds

    @property
    def loss(self) -> float:
        """Of what was sent; 0 only if nothing is missing."""
        return self.lost / self.sent if self.sent else 0.0


class Traffic(Protocol):
    """A generator and its sinks, ready on their hosts."""

    def measure(self, profile: Profile, rate: float | None, seconds: float,
                during: Callable[[], None] | None = None,
                background: Sequence[Background] = ()) -> Measurement:
        """Send, wait until nothing arrives any more, and compare.

        :param during: called in a thread of its own once traffic flows; what
            it raises is raised when the traffic has ended.
        :param background: sent meanwhile, from the same generators.
        :raises BenchError: generator or sink failed.
        """

    def timeline(self) -> list[tuple[float, int, int]]:
        """Of the last measurement: (seconds since its start, sent, lost), one
        for each tenth of a second, by when it was sent."""


class Source(Protocol):
    """A kind of generator: our own, or TRex."""

    name: str

    def open(self, bed: interface.Bed,
             ) -> contextlib.AbstractContextManager[Traffic]:
        """Start it on the bed's generators, sinks and members."""
