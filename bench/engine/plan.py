# SPDX-License-Identifier: Apache-2.0
"""The steps of a run in order, with the estimated time of each.

Rounds are interleaved: the first of all cases, then the second of all. Thus
drift of a machine (its clock rate, its neighbours) affects all cases alike,
and peers are measured right after the product.
"""

from collections.abc import Sequence
import dataclasses

from bench.engine import kinds
from bench.scenarios import model

# Seconds to start and end software and traffic for a measurement, plus those
# for each service; measured on two CPUs.
SET_UP_S = 2.0
SERVICE_S = 0.0005
BED_S = 2.0


@dataclasses.dataclass(frozen=True)
class Step:
    """One round of a variant with one software."""

    variant: model.Variant
    software: model.Software
    number: int
    seconds: float

    @property
    def name(self) -> str:
        return (f'{self.variant.name} {self.software.name}, round '
                f'{self.number} of {self.variant.rounds}')


def steps(variants: Sequence[model.Variant],
          left_out: frozenset[tuple[str, str]] = frozenset()) -> list[Step]:
    """:param left_out: (bed, software) that is missing on the bed."""
    made = []
    for number in range(1, 1 + max((variant.rounds for variant in variants),
                                   default=0)):
        for variant in variants:
            if number > variant.rounds:
                continue
            made += [
                Step(variant, software, number, _seconds(variant))
                for software in (variant.software, *variant.beside)
                if (variant.bed, software.name) not in left_out]
    return made


def seconds(made: Sequence[Step]) -> float:
    """Return the seconds of all steps and of building their beds."""
    beds = {(step.variant.bed, step.variant.bed_set) for step in made
            if not step.variant.is_alone}
    return sum(step.seconds for step in made) + BED_S * len(beds)


def _seconds(variant):
    if variant.is_alone:
        return variant.measure.seconds
    return (SET_UP_S + SERVICE_S * variant.services.vips
            + kinds.seconds(variant.measure))
