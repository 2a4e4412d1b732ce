# SPDX-License-Identifier: Apache-2.0
"""The environment in which a round of a case is measured."""

from collections.abc import Sequence
import dataclasses
from typing import Any

from bench.beds import interface as beds
from bench.scenarios import model
from bench.software import interface as subjects
from bench.traffic import generator
from bench.traffic import interface as sources


@dataclasses.dataclass
class Context:
    """:ivar spares: members of no service, for events.
    :ivar traffic: None for kinds whose traffic comes from plain clients.
    """

    bed: beds.Bed
    variant: model.Variant
    software: model.Software
    services: Sequence[subjects.Service]
    deployment: subjects.Deployment
    spares: Sequence[subjects.Member] = ()
    traffic: generator.Traffic | None = None

    @property
    def measure(self) -> model.Measure:
        return self.variant.measure

    def profile(self, **others: Any) -> sources.Profile:
        """Return the profile of the scenario's traffic to all its services.

        :param others: fields of the profile to override.
        """
        wanted = self.variant.traffic
        protocol = wanted.protocol or self.variant.services.protocol
        fields: dict[str, Any] = {
            'destinations': tuple(
                sources.Destination(service.vip, service.port, protocol)
                for service in self.services),
            'flows': wanted.flows, 'sizes': wanted.sizes,
            'kind': wanted.kind}
        if wanted.sources is not None:
            fields['sources'] = wanted.sources
        return sources.Profile(**{**fields, **others})

    def details(self) -> dict[str, Any]:
        """Return what the software reports of packets not forwarded."""
        details = getattr(self.deployment, 'details', None)
        return details() if details else {}
