# SPDX-License-Identifier: Apache-2.0
"""The interface to run one round of a checkout, for any suite."""

import pathlib
from typing import Protocol

from bench.results import model


class Runner(Protocol):
    """:ivar suite: name of the suite in stored runs."""

    suite: str

    def prepare(self, checkout: pathlib.Path) -> None:
        """Build what a round needs; called once for each checkout.

        :raises BenchError: it cannot be built.
        """

    def run_round(self, checkout: pathlib.Path) -> list[model.Case]:
        """Return the cases, each with the samples of one round.

        :raises BenchError: the round failed.
        """
