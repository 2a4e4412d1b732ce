# SPDX-License-Identifier: Apache-2.0
"""The interface of software under test: this product and its peers."""

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
    """A server. `host`: the host of the bed that has the address."""

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
    """Running software.

    Costs are counted from the start of the deployment on; the difference of
    two readings is the cost of the time between them.
    """

    def cpu_seconds(self) -> float:
        """Return CPU seconds of load balancers: of their processes, and of
        their kernels for packets."""

    def memory_bytes(self) -> int:
        """Return memory of its processes, maps and kernel tables."""

    def set_members(self, service: Service) -> None:
        """Replace the members of the service with this VIP, port, protocol."""

    def stop_node(self, host: str) -> None:
        """Take a load balancer out of service without warning."""

    def start_node(self, host: str) -> None:
        """Take a load balancer back into service."""


@runtime_checkable
class UpdatesInBulk(Protocol):
    """A deployment that can set the members of many services at once."""

    def set_services(self, services: Sequence[Service]) -> None:
        """Like set_members() for each service."""


@runtime_checkable
class TakesHealth(Protocol):
    """A deployment that gets results of health checks from outside."""

    def set_health(self, service: Service, address: str, up: bool) -> None:
        """Apply the result of a member's health check."""


@runtime_checkable
class CountsByNode(Protocol):
    """A deployment that counts packets of each VIP, on each node."""

    def packets_by_vip(self) -> Mapping[str, Mapping[str, int]]:
        """Return packets since deployment, by name of the node and VIP."""


class Software(Protocol):
    """A kind of load balancer.

    :ivar name: name in declarations: xdp, haproxy, nginx, ipvs, kernel.
    """

    name: str

    def missing(self, bed: interface.Bed) -> str | None:
        """Return why it cannot run on this bed; None if it can."""

    def check(self, configuration: Mapping[str, Any]) -> None:
        """:raises BenchError: the configuration is invalid."""

    def deploy(self, bed: interface.Bed, services: Sequence[Service],
               configuration: Mapping[str, Any],
               ) -> contextlib.AbstractContextManager[Deployment]:
        """Serve from all load balancers of the bed while the context lasts.

        :param configuration: from the scenario; unknown keys are refused.
        """
