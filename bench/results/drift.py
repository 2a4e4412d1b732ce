# SPDX-License-Identifier: Apache-2.0
"""Estimates how far apart two runs without a change are.

Rounds of one run tell little about that, since what slows a machine for an
hour affects all of them. So it is learnt from stored runs of the same commit
on the same machine.
"""

from collections.abc import Iterable
import math
import statistics

import scipy.stats

from bench import fingerprint
from bench.results import model

CONFIDENCE = 0.95

# Degrees of freedom below which a spread is only a guess.
DEGREES_MIN = 4


def known(runs: Iterable[model.Run]) -> dict[tuple[str, str], float]:
    """Return drifts by (software, name) for cases with enough runs.

    The difference of two runs without a change is below it (0.2 is 20 %) with
    a probability of 95 % (normal logarithms of medians, pooled over commits).
    """
    squares: dict[tuple[str, str], float] = {}
    degrees: dict[tuple[str, str], int] = {}
    for group in _same(runs):
        for key, medians in _medians(group).items():
            mean = statistics.fmean(medians)
            squares[key] = squares.get(key, 0.0) + sum(
                (value - mean) ** 2 for value in medians)
            degrees[key] = degrees.get(key, 0) + len(medians) - 1
    return {key: _difference(squares[key], count)
            for key, count in degrees.items() if count >= DEGREES_MIN}


def _difference(squares, degrees):
    spread = math.sqrt(2 * squares / degrees)
    quantile = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, degrees)
    return math.expm1(quantile * spread)


def _same(runs):
    groups: list[list[model.Run]] = []
    for run in runs:
        for group in groups:
            if run.commit == group[0].commit and not _differ(run, group[0]):
                group.append(run)
                break
        else:
            groups.append([run])
    return groups


def _differ(run, other):
    if run.commit.endswith('+'):
        # Checkouts with changes may differ from each other.
        return True
    return any(difference.importance <= fingerprint.Importance.SETTINGS
               for difference in fingerprint.differences(
                   run.fingerprint, other.fingerprint))


def _medians(group):
    medians: dict[tuple[str, str], list[float]] = {}
    for run in group:
        for case in run.cases:
            if case.samples and min(case.samples) > 0 and not case.marks:
                medians.setdefault((case.software, case.name), []).append(
                    math.log(statistics.median(case.samples)))
    return medians
