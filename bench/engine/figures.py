# SPDX-License-Identifier: Apache-2.0
"""Figures of one round of a case, and how rounds become a case."""

from collections.abc import Iterable
import dataclasses
from typing import Any

from bench.results import model
from bench.scenarios import model as scenarios
from bench.traffic import interface as traffic


@dataclasses.dataclass
class Figure:
    """A value of one round; fields as in bench.results.model.Case.

    :ivar part: suffix of the variant's name; '' for its first figure.
    """

    part: str
    unit: str
    better: str
    value: float
    marks: list[str] = dataclasses.field(default_factory=list)
    timeline: list[tuple[float, int, int]] = dataclasses.field(
        default_factory=list)
    events: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    details: dict[str, Any] = dataclasses.field(default_factory=dict)


class Cases:
    """Cases of a run, which grow with each round.

    :ivar ours: software under test, by name of the case.
    """

    def __init__(self) -> None:
        self.ours: dict[str, str] = {}
        self._cases: dict[tuple[str, str], model.Case] = {}

    def add(self, variant: scenarios.Variant, software: str, number: int,
            figures: Iterable[Figure]) -> list[model.Case]:
        """Add a round's figures; return the cases that they belong to.

        :param number: number of the round, from 1 on, for marks.
        """
        touched = []
        for figure in figures:
            case = self._case(variant, software, figure)
            case.samples.append(figure.value)
            # The subject of a mark precedes its colon.
            case.marks += [f'{mark} (round {number})'
                           for mark in figure.marks]
            if figure.timeline or figure.events:
                # Plots show one round, the last.
                case.timeline = figure.timeline
                case.events = figure.events
            case.details.setdefault('rounds', []).append(figure.details)
            touched.append(case)
        return touched

    def all(self) -> list[model.Case]:
        return list(self._cases.values())

    def _case(self, variant, software, figure):
        name = '/'.join(filter(None, (variant.name, figure.part)))
        self.ours[name] = variant.software.name
        try:
            return self._cases[name, software]
        except KeyError:
            case = self._cases[name, software] = model.Case(
                name, figure.unit, figure.better, [], software=software,
                coordinates=dict(variant.coordinates))
            return case


def of_measurement(done: traffic.Measurement) -> dict[str, Any]:
    """Return what is stored of a measurement beside its figures."""
    kept = dataclasses.asdict(done)
    # Too large with thousands of destinations.
    del kept['by_destination'], kept['marks']
    return kept


def text(listed: Iterable[Figure]) -> str:
    """Return a round's figures in one line."""
    return '; '.join(
        f'{f"{figure.part} " if figure.part else ""}'
        f'{number(figure.value)} {figure.unit}'
        f'{" (marked)" if figure.marks else ""}' for figure in listed)


def number(value: float) -> str:
    """Return a number with four digits, or all digits before the point."""
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.4g}'
