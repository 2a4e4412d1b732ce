# SPDX-License-Identifier: Apache-2.0
"""The product beside its peers, case by case."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from bench.results import model
from bench.results import statistics


def of(cases: Sequence[model.Case], ours: Mapping[str, str],
       ) -> Iterator[model.Versus]:
    """A ratio for each case that a peer has as well.

    Where a value is zero (nothing was lost) there is no ratio; both cases say
    so by themselves.

    :param ours: software under test by the name of the case.
    """
    mine = {case.name: case for case in cases
            if ours.get(case.name) == case.software}
    for case in cases:
        own = mine.get(case.name)
        if own is None or own is case:
            continue
        if _has_ratio(own) and _has_ratio(case):
            yield statistics.versus(case.software, own, case)


def _has_ratio(case):
    return bool(case.samples) and min(case.samples) > 0
