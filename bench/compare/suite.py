# SPDX-License-Identifier: Apache-2.0
"""Runs a suite of a checkout by the checkout's own command, with the
interpreter and libraries of this one."""

from collections.abc import Sequence
import os
import pathlib
import sys
import tempfile

from bench.compare import programs
from bench.results import document
from bench.results import model
from bench.scenarios import load

_BUILD_S = 900
_ROUND_S = 3600


class Suite:
    """:param arguments: further arguments of "run".
    :raises BenchError: there is no such suite.
    """

    def __init__(self, suite: str, arguments: Sequence[str] = ()):
        self.suite = suite
        self._arguments = arguments
        load.suite(suite)

    def prepare(self, checkout: pathlib.Path) -> None:
        """Build what a round needs; called once for each checkout.

        :raises BenchError: it cannot be built.
        """
        programs.run(['make', '-s', '-C', checkout / 'datapath'], checkout,
                     _BUILD_S)

    def run_round(self, checkout: pathlib.Path) -> list[model.Case]:
        """Return the cases, each with the samples of one round.

        :raises BenchError: the round failed.
        """
        with tempfile.TemporaryDirectory(prefix='oxp-bench-') as folder:
            store = f'--store={folder}/results.sqlite'
            _bench(checkout, 'run', f'--suite={self.suite}', '--rounds=1',
                   store, f'--output={folder}', *self._arguments)
            # The format of stores may differ between checkouts.
            run, = document.read(_bench(checkout, 'export', store), 'a round')
        # The case that a ratio refers to is compared itself.
        return [case for case in run.cases
                if not case.name.endswith('ratio to floor')]


def _bench(checkout, *words):
    return programs.run([sys.executable, '-m', 'bench', *words], checkout,
                        _ROUND_S, {**os.environ, 'PYTHONPATH': str(checkout)})
