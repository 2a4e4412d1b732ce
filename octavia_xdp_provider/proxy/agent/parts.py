# SPDX-License-Identifier: Apache-2.0
"""What the agent needs of the modules that know secrets, health and traffic.

Each is narrow, so that the agent works without it: a node without listeners
that do TLS asks for no secret, for example.
"""

from collections.abc import Mapping
import dataclasses
from typing import Protocol

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import proxy_spec


class Missing(Exception):
    """A secret is not here yet. The agent asks again."""


class Secrets(Protocol):
    """Certificates, keys, CAs and CRLs. For the worker's thread."""

    def want(self, bundles: Mapping[str, frozenset[str]]) -> None:
        """Take the hashes of all bundles that each load balancer needs, by
        its id; those without TLS are not there. Called in each pass."""

    def changed(self) -> set[str]:
        """Return the load balancers whose files would be other ones now than
        at the last call: something has arrived, or keys of TLS tickets are
        new."""

    def files(self, load_balancer_id: str, hashes: frozenset[str]
              ) -> dict[str, bytes]:
        """Return the contents of the files that a configuration with these
        bundles names, by name of the file.

        :raises Missing: one of them is not here yet.
        """

    @property
    def problem(self) -> str | None:
        """Return why secrets are missing, other than that they are just being
        fetched, or None."""


class Health(Protocol):
    """States of members. For the worker's thread, but ``figures``."""

    def want(self, documents: Mapping[str, proxy_spec.Document]) -> None:
        """Take the documents of all load balancers that are served, by id.

        Called in each pass; a document that has not changed is the same
        object.

        :raises OSError: the checker cannot be told about all of them.
        """

    def changed(self) -> set[str]:
        """Return the load balancers whose members' states have changed since
        the last call."""

    def states(self, load_balancer_id: str
               ) -> Mapping[str, messages.MemberState]:
        """Return the states of monitored members by id."""

    def down(self, load_balancer_id: str) -> frozenset[str]:
        """Return the ids of members that a new HAProxy process must not send
        requests to."""

    def figures(self) -> messages.HealthChecker | None:
        """Return figures of the checker; None if it does not answer."""


class Traffic(Protocol):
    """Counters of listeners. For any thread."""

    def counters(self) -> dict[str, dict[str, messages.Counters]]:
        """Return counters by load balancer id and listener id."""


class NoSecrets:
    """A node that gets no secrets."""

    def want(self, bundles: Mapping[str, frozenset[str]]) -> None:
        pass

    def changed(self) -> set[str]:
        return set()

    def files(self, load_balancer_id: str, hashes: frozenset[str]
              ) -> dict[str, bytes]:
        raise Missing('this node gets no certificates')

    @property
    def problem(self) -> str | None:
        return None


class NoHealth:
    """Members of which nothing is known."""

    def want(self, documents: Mapping[str, proxy_spec.Document]) -> None:
        pass

    def changed(self) -> set[str]:
        return set()

    def states(self, load_balancer_id: str
               ) -> Mapping[str, messages.MemberState]:
        return {}

    def down(self, load_balancer_id: str) -> frozenset[str]:
        return frozenset()

    def figures(self) -> messages.HealthChecker | None:
        return None


class NoTraffic:
    """Nothing is counted."""

    def counters(self) -> dict[str, dict[str, messages.Counters]]:
        return {}


@dataclasses.dataclass(frozen=True)
class Parts:
    """The modules that an agent works with."""

    secrets: Secrets = dataclasses.field(default_factory=NoSecrets)
    health: Health = dataclasses.field(default_factory=NoHealth)
    traffic: Traffic = dataclasses.field(default_factory=NoTraffic)
