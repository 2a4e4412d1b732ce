# SPDX-License-Identifier: Apache-2.0
"""Runs a suite of a checkout by the checkout's own command, with the
interpreter and libraries of this one."""

from collections.abc import Sequence
import os
import pathlib
import sys
import tempfile

from bench import errors
from bench.compare import programs
from bench.results import model
from bench.results import store as stores
from bench.scenarios import load

_BUILD_S = 900
_ROUND_S = 3600


class Suite:
    """:param only: patterns of names of cases; empty: all of them.
    :raises BenchError: there is no such suite.
    """

    def __init__(self, suite: str, only: Sequence[str] = ()):
        self.suite = suite
        self._only = only
        load.suite(suite)

    def prepare(self, checkout: pathlib.Path) -> None:
        if not (checkout / 'bench/commands/run.py').exists():
            raise errors.BenchError(f'{checkout}: this commit cannot run '
                                    f'suites yet; --suite datapath may do')
        programs.run(['make', '-s', '-C', checkout / 'datapath'], checkout,
                     _BUILD_S)

    def run_round(self, checkout: pathlib.Path) -> list[model.Case]:
        with tempfile.TemporaryDirectory(prefix='oxp-bench-') as text:
            folder = pathlib.Path(text)
            words = [sys.executable, '-m', 'bench', 'run', '--suite',
                     self.suite, '--store', folder / 'results.sqlite',
                     '--output', folder,
                     '--rounds', '1']
            for pattern in self._only:
                words += ['--only', pattern]
            programs.run(words, checkout, _ROUND_S,
                         {**os.environ, 'PYTHONPATH': str(checkout)})
            runs = stores.Store(folder / 'results.sqlite').runs()
        if not runs:
            raise errors.BenchError(f'{checkout}: the suite stored no run')
        return runs[-1].cases
