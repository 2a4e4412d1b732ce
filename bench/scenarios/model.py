# SPDX-License-Identifier: Apache-2.0
"""Scenarios as they are run, with a variant for each cell of a matrix."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from bench.scenarios import alone

# (bytes without FCS, frames of twelve): the "simple IMIX" of routers' data
# sheets (RFC 6985 defines names of such mixes). Its shortest frames, of 60
# bytes, are enlarged to hold a signature.
IMIX = ((64, 7), (590, 4), (1514, 1))


@dataclasses.dataclass(frozen=True)
class Software:
    name: str = 'xdp'
    configuration: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Services:
    """VIPs, each with one listener that has ``members`` members.

    :param family: IP version of VIPs.
    :param member_family: IP version of members; None: that of VIPs.
    """

    vips: int = 1
    family: int = 4
    member_family: int | None = None
    port: int = 8000
    protocol: str = 'udp'
    members: int = 4


@dataclasses.dataclass(frozen=True)
class Traffic:
    """See bench.traffic.interface.Profile.

    :param protocol: None: that of the services.
    """

    flows: int = 1024
    sizes: tuple[tuple[int, int], ...] = ((128, 1),)
    kind: str = 'established'
    protocol: str | None = None
    sources: str | None = None


@dataclasses.dataclass(frozen=True)
class Measure:
    """What is measured and how; doc/source/contributor/benchmarks lists the
    keys of each kind."""

    kind: str
    seconds: float = 2.0
    rate: float | None = None
    flood_rate: float | None = None
    precision: float = 0.05
    confirmations: int = 2
    client: str = 'wrk'
    connections: int = 16
    bytes: int = 100
    keep_alive: bool = True
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Event:
    """:param at: seconds since the start of traffic.
    :param services: number of services; 0: all.
    """

    at: float
    do: str
    node: int = 1
    member: int = 1
    services: int = 0
    up: bool = False

    def text(self) -> str:
        """Return the text for time lines."""
        what = self.do.replace('_', ' ')
        match self.do:
            case 'node_stops' | 'node_starts':
                return f'{what}: {self.node}'
            case 'member_dies':
                return f'{what}: {self.member}'
            case 'health_changes':
                return f'{what}: {self.member} {"up" if self.up else "down"}'
            case 'table_update':
                return f'{what}: {self.services or "all"} services'
        return what


@dataclasses.dataclass(frozen=True)
class Variant:
    """One cell of a scenario's matrix.

    :param name: scenario and cell, for example 'sizes/64'.
    :param bed_set: changes of the bed's declaration: keys and value.
    :param beside: peers to compare with, in the same rounds.
    :param coordinates: coordinates of the cell for plots.
    """

    name: str
    bed: str
    measure: Measure
    bed_set: tuple[tuple[tuple[str, ...], Any], ...] = ()
    software: Software = Software()
    beside: tuple[Software, ...] = ()
    services: Services = Services()
    traffic: Traffic = Traffic()
    events: tuple[Event, ...] = ()
    rounds: int = 3
    coordinates: Mapping[str, float | str] = dataclasses.field(
        default_factory=dict)

    @property
    def is_alone(self) -> bool:
        """Whether it needs no bed."""
        return self.measure.kind in alone.KINDS


@dataclasses.dataclass(frozen=True)
class Suite:
    """:param minutes: limit of its duration; None: unlimited."""

    name: str
    summary: str
    minutes: float | None
    variants: tuple[Variant, ...] = ()
