# SPDX-License-Identifier: Apache-2.0
"""Scenarios as they are run: one variant for each cell of a matrix."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from bench.scenarios import alone

# Frames without FCS, by how many of twelve: the "simple IMIX" of routers'
# data sheets (RFC 6985 says how such mixes are to be named), whose shortest
# are 60: here they have room for a signature.
IMIX = ((64, 7), (590, 4), (1514, 1))


@dataclasses.dataclass(frozen=True)
class Software:
    name: str = 'xdp'
    configuration: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Services:
    """Each VIP has one listener, with as many members.

    :param family: of VIPs.
    :param member_family: None: that of VIPs.
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
    """What is found out, and how; doc/source/contributor/benchmarks says
    which keys which kind has."""

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
    """:param at: seconds since the traffic began.
    :param services: how many; 0: all.
    """

    at: float
    do: str
    node: int = 1
    member: int = 1
    services: int = 0
    up: bool = False

    def text(self) -> str:
        """As the time line shows it."""
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

    :param name: of the scenario and the cell, as in 'sizes/64'.
    :param bed_set: changes of the bed's declaration: keys and value.
    :param beside: what it is compared with, in the same rounds.
    :param coordinates: of the cell, for plots.
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
    """:param minutes: that it may take; None: as many as it takes."""

    name: str
    summary: str
    minutes: float | None
    variants: tuple[Variant, ...] = ()
