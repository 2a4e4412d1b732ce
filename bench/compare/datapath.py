# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds a packet, by the program of "make bench-datapath"."""

import json
import os
import pathlib
import tempfile

from bench import errors
from bench.compare import programs
from bench.results import model

_BUILD_S = 900
_ROUND_S = 1800
_TARGETS = ('build/liboctavia_xdp.so', 'build/bench/packets')


class Datapath:
    """:param only: a part of the names of cases; None: all of them."""

    suite = 'datapath'

    def __init__(self, only: str | None = None):
        if os.geteuid():
            raise errors.BenchError('the datapath is measured as root: it '
                                    'loads programs into the kernel')
        self._only = only

    def prepare(self, checkout: pathlib.Path) -> None:
        programs.run(['make', '-s', '-C', checkout / 'datapath', *_TARGETS],
                     checkout, _BUILD_S)

    def run_round(self, checkout: pathlib.Path) -> list[model.Case]:
        with tempfile.TemporaryDirectory(prefix='oxp-bench-') as folder:
            figures = pathlib.Path(folder) / 'figures.json'
            programs.run(
                [checkout / 'datapath' / _TARGETS[-1], figures,
                 *([self._only] if self._only else ())], checkout, _ROUND_S)
            text = figures.read_text()
        return list(_cases(text, self._only))


def _cases(text, only):
    # Without a case, the program writes no opening bracket.
    if not text.strip(' \n]'):
        raise errors.BenchError(f'no case of the datapath has {only!r} in '
                                f'its name')
    for figure in json.loads(text):
        yield model.Case(
            figure['case'], 'ns', model.LOWER, [float(figure['median_ns'])],
            details={'least_ns': figure['min_ns'],
                     'floor_ns': figure['floor_ns'],
                     'quiet_runs': figure['quiet_runs']})
