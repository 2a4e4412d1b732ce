# SPDX-License-Identifier: Apache-2.0
"""What runs one round of a checkout, whichever suite it is."""

import pathlib
from typing import Protocol

from bench.results import model


class Runner(Protocol):
    """:ivar suite: name of the suite, as runs have it."""

    suite: str

    def prepare(self, checkout: pathlib.Path) -> None:
        """Build what a round needs; once for each checkout.

        :raises BenchError: it cannot be built.
        """

    def run_round(self, checkout: pathlib.Path) -> list[model.Case]:
        """The cases, each with the samples of one round.

        :raises BenchError: it failed.
        """
