# SPDX-License-Identifier: Apache-2.0
"""Types of traffic: what is sent, and what arrives.

Payloads carry a signature: run, flow, sequence number, time. Packets without
it are foreign and counted separately, so that zero loss means zero.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Destination:
    """A destination of traffic. Its share is its weight by the sum of all."""

    address: str
    port: int
    protocol: str = 'udp'  # tcp, udp or quic
    weight: int = 1


@dataclasses.dataclass(frozen=True)
class Profile:
    """One kind of traffic.

    :param flows: 5-tuples over all destinations; 0: a new one for each packet.
    :param sizes: (bytes, weight) of frames without FCS; IMIX has several.
    :param kind: established (no SYN), opened (each flow starts with a SYN), or
        syn (only SYNs).
    :param sources: network of the clients; a flood uses all of it.
    :param sources_v6: the same for IPv6 destinations.
    """

    destinations: tuple[Destination, ...]
    flows: int = 1024
    sizes: tuple[tuple[int, int], ...] = ((64, 1),)
    kind: str = 'established'
    sources: str = '198.18.0.0/16'
    sources_v6: str = '2001:2:0:1::/64'


@dataclasses.dataclass(frozen=True)
class Background:
    """Traffic besides the measured one, such as a flood of SYNs.

    :param rate: packets/s; None: as fast as possible.
    """

    profile: Profile
    rate: float | None = None


@dataclasses.dataclass
class Measurement:
    """The result of sending for some time.

    :ivar seconds: duration of sending.
    :ivar asked: packets/s; None: as fast as possible.
    :ivar lost: packets sent but not received, by signature.
    :ivar foreign: packets received without the signature of this run.
    :ivar reordered: packets received after a later one of the same flow.
    :ivar latency_ns: from the generator to the sink, by percentile (p50, p90,
        p99, p999, max); None: clocks are not comparable.
    :ivar by_receiver: packets by name of the receiving host.
    :ivar by_destination: (sent, received) by 'address:port'.
    :ivar flows_with_loss: number of flows with loss.
    :ivar marks: why the figure is in doubt, as in 'rate not reached: 812000 of
        1000000'; always shown with the result.
    :ivar refused: lost packets that the generator's link did not accept: on
        veth the queue of its peer, else that of the network card.
    :ivar opened: (sent, received) packets that open flows; not part of other
        figures, except in floods of SYNs.
    :ivar foreign_by_kind: by FOREIGN_… of src/format.h.
    :ivar background: (sent, received) of each background traffic.
    :ivar reordered_by_receiver: by name of the receiving host.
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
        """Lost part of the sent packets; 0 only if nothing is missing."""
        return self.lost / self.sent if self.sent else 0.0
