# SPDX-License-Identifier: Apache-2.0
"""Selects runs of the store by what users type."""

import re

from bench import errors
from bench.results import model
from bench.results import store as stores

HELP = ('number of a run; "latest" or "latest~2", two before; or the '
        'beginning of a commit, of which the newest run is taken')

_LATEST = re.compile(r'latest(?:~(\d+))?')
_COMMIT = re.compile(r'[0-9a-f]{4,64}\+?')


def every(store: stores.Store, suite: str | None = None) -> list[model.Run]:
    """:raises BenchError: the store has no runs."""
    runs = store.runs(suite)
    if not runs:
        raise errors.BenchError(f'{store.path} has no runs'
                                + (f' of suite {suite}' if suite else ''))
    return runs


def choose(store: stores.Store, text: str,
           suite: str | None = None) -> model.Run:
    """:raises BenchError: there is no such run."""
    latest = _LATEST.fullmatch(text)
    if latest:
        runs = store.runs(suite)
        back = int(latest[1] or 0)
        if back >= len(runs):
            raise errors.BenchError(
                f'{text}: {store.path} has {len(runs)} runs'
                + (f' of suite {suite}' if suite else ''))
        return runs[-1 - back]
    if text.isdecimal() and len(text) < 7:
        return store.run(int(text))
    if _COMMIT.fullmatch(text):
        runs = store.runs(suite, text)
        if runs:
            return runs[-1]
        raise errors.BenchError(
            f'{text}: {store.path} has no run of this commit; "compare '
            f'--rounds" runs commits that are not there')
    raise errors.BenchError(f'{text}: not a run: {HELP}')
