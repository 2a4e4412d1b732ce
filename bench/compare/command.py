# SPDX-License-Identifier: Apache-2.0
"""Implements the command "compare"."""

import argparse
import sys

from bench import errors
from bench import facts
from bench.compare import checkouts
from bench.compare import suite
from bench.compare import turns
from bench.report import html
from bench.report import markdown
from bench.results import atomic
from bench.results import comparison
from bench.results import select
from bench.results import store as stores
from bench.results import verdict

CHANGED_STATUS = 3


def run(arguments: argparse.Namespace) -> int:
    if arguments.rounds:
        store = stores.Store(arguments.store or stores.DEFAULT)
        before, after = _in_turn(arguments, store)
    else:
        if arguments.only or arguments.set:
            raise errors.BenchError('--only and --set choose what --rounds '
                                    'runs')
        store = stores.existing(arguments.store)
        before, after = (select.choose(store, text, arguments.suite)
                         for text in (arguments.before, arguments.after))
    interest = (verdict.Interest() if arguments.threshold is None
                else verdict.Interest(arguments.threshold, {}))
    result = comparison.compare(before, after, interest,
                                store.runs(after.suite))
    text = markdown.of_comparison(result)
    print(text)
    if arguments.markdown:
        atomic.write(arguments.markdown, text)
    if arguments.html:
        atomic.write(arguments.html, html.of_comparison(
            result, store.runs(after.suite)))
    return CHANGED_STATUS if _failed(arguments.fail_on, result) else 0


def _failed(condition, result):
    return ((condition == 'changed' and result.verdict == verdict.CHANGED)
            or (condition == 'worse' and result.is_worse))


def _in_turn(arguments, store):
    runner = suite.Suite(arguments.suite or 'datapath', [
        *(f'--only={pattern}' for pattern in arguments.only),
        *(f'--set={change}' for change in arguments.set)])
    commits = tuple(checkouts.commit(ref)
                    for ref in (arguments.before, arguments.after))
    places = tuple(checkouts.checkout(commit) for commit in commits)
    for place in dict.fromkeys(places):
        _log(f'building {place.name[:12]}')
        runner.prepare(place)
    return turns.run(runner, commits, places, arguments.rounds, store,
                     _fingerprint(runner), _log)


def _fingerprint(runner):
    # In the form of a bed's, for fingerprint.importance().
    return {'beds': {runner.suite: {'machines': {'machine': facts.facts()}}}}


def _log(text):
    print(text, file=sys.stderr, flush=True)
