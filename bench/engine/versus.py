# SPDX-License-Identifier: Apache-2.0
"""Compares the product with its peers, case by case."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from bench.results import model
from bench.results import statistics


def of(cases: Sequence[model.Case], ours: Mapping[str, str],
       ) -> Iterator[model.Versus]:
    """Yield a ratio for each case that a peer has too.

    Values of zero (such as no loss) yield no ratio.

    :param ours: software under test, by name of the case.
    """
    own_cases = {case.name: case for case in cases
                 if ours.get(case.name) == case.software}
    for case in cases:
        own = own_cases.get(case.name)
        if own is None or own is case:
            continue
        if _has_ratio(own) and _has_ratio(case):
            yield statistics.versus(case.software, own, case)


def _has_ratio(case):
    return bool(case.samples) and min(case.samples) > 0
