# SPDX-License-Identifier: Apache-2.0
"""Software under test: this product, and what it is set beside."""

from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
from typing import Any
from typing import Protocol
from typing import runtime_checkable

from bench.beds import interface


@dataclasses.dataclass(frozen=True)
class Member:
    """A server: `host` is that of the bed which has the address."""

    address: str
    port: int
    host: str
    weight: int = 1


@dataclasses.dataclass(frozen=True)
class Service:
    """A listener with its pool."""

    vip: str
    port: int
    protocol: str  # tcp or udp
    members: tuple[Member, ...]


class Deployment(Protocol):
    """Software that serves.

    Costs are counted from the start of the deployment on; the difference of
    two looks is what the time between them cost.
    """

    def cpu_seconds(self) -> float:
        """Of the load balancers: its processes and what their kernels did for
        packets."""

    def memory_bytes(self) -> int:
        """Of its processes, maps and kernel tables."""

    def set_members(self, service: Service) -> None:
        """Replace the members of the service with this VIP, port, protocol."""

    def stop_node(self, host: str) -> None:
        """Take a load balancer out of service, without a warning."""

    def start_node(self, host: str) -> None:
        """And in again."""


@runtime_checkable
class UpdatesInBulk(Protocol):
    """A deployment that can set the members of many services at once."""

    def set_services(self, services: Sequence[Service]) -> None:
        """As set_members() for each."""


@runtime_checkable
class TakesHealth(Protocol):
    """A deployment that leaves health checks to others."""

    def set_health(self, service: Service, address: str, up: bool) -> None:
        """What a check of one of its members has found."""


@runtime_checkable
class CountsByNode(Protocol):
    """A deployment that counts packets of each VIP, on each node."""

    def packets_by_vip(self) -> Mapping[str, Mapping[str, int]]:
        """Since it was deployed: by name of the node, by VIP."""


class Software(Protocol):
    """One kind of load balancer.

    :ivar name: as declarations call it: xdp, haproxy, nginx, ipvs, kernel.
    """

    name: str

    def missing(self, bed: interface.Bed) -> str | None:
        """Why it cannot run on this bed; None if it can."""

    def check(self, configuration: Mapping[str, Any]) -> None:
        """:raises BenchError: what a declaration says of it cannot be meant.
        """

    def deploy(self, bed: interface.Bed, services: Sequence[Service],
               configuration: Mapping[str, Any],
               ) -> contextlib.AbstractContextManager[Deployment]:
        """Serve from all load balancers of the bed when the context begins.

        :param configuration: of the scenario; what is not known is refused.
        """
