# SPDX-License-Identifier: Apache-2.0
"""Runs rounds of two commits in turn, which yields two runs."""

from collections.abc import Callable
import copy
import datetime
import pathlib
import secrets
import time
from typing import Any

from bench import errors
from bench.compare import suite as suites
from bench.results import comparison
from bench.results import model
from bench.results import store as stores


def run(suite: suites.Suite, commits: tuple[str, str],
        places: tuple[pathlib.Path, pathlib.Path], rounds: int,
        store: stores.Store, fingerprint: dict[str, Any],
        say: Callable[[str], None]) -> tuple[model.Run, model.Run]:
    """Run all rounds, then store and return both runs.

    Every other round starts with the second commit, so that a machine that
    becomes ever slower makes no difference between them.

    :param fingerprint: fingerprint of the machine, for both.
    :raises BenchError: a round failed; nothing is stored.
    """
    started = datetime.datetime.now(datetime.timezone.utc)
    token = secrets.token_hex(8)
    runs = tuple(
        model.Run(suite.suite, commit, started, {
            **fingerprint, 'commit': commit, 'changes': None,
            comparison.IN_TURN: token})
        for commit in commits)
    sides: tuple[dict, dict] = ({}, {})
    begin = time.monotonic()
    for number in range(rounds):
        for side in ((0, 1), (1, 0))[number % 2]:
            _add(sides[side], suite.run_round(places[side]), number)
        took = time.monotonic() - begin
        say(f'round {number + 1} of {rounds}, '
            f'{took / (number + 1) * (rounds - number - 1):.0f} s left')
    for made, cases in zip(runs, sides, strict=True):
        made.cases += cases.values()
    store.add(runs)
    return runs[0], runs[1]


def _add(cases, added, number):
    """Add the cases of a round; all rounds must have the same ones."""
    keys = {(case.software, case.name) for case in added}
    if number and keys != cases.keys():
        names = ', '.join(sorted(name for _, name in keys ^ cases.keys()))
        raise errors.BenchError(f'not in each round: {names}')
    for case in added:
        key = case.software, case.name
        if key not in cases:
            cases[key] = copy.deepcopy(case)
            continue
        cases[key].samples += case.samples
        cases[key].marks += [mark for mark in case.marks
                             if mark not in cases[key].marks]
