# SPDX-License-Identifier: Apache-2.0
"""The greatest rate at which nothing is lost, by search (bench/search)."""

from bench.engine import context as contexts
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model
from bench.search import goal
from bench.search import rate
from bench.search import trials

NEEDS_SOURCE = True
TRIALS_MAX = 24
# Of the greatest rate: below, the search ends without a result.
_LEAST = 1e-3
# Of trials that are sent, until nothing arrives any more.
_TRIAL_S = 0.8
_TRIALS_USUAL = 14
# Beginnings of marks of which a trial says nothing. One that was short of its
# rate is told by that; what a full queue did not take is loss.
_DISTURBED = ('the clock', 'foreign traffic', 'ended early',
              'packets still arrived')


def seconds(measure: model.Measure) -> float:
    return _TRIALS_USUAL * (measure.seconds + _TRIAL_S)


def run(context: contexts.Context) -> list[figures.Figure]:
    measure = context.measure
    highest = measure.rate or _highest(context)
    found = rate.search(
        lambda asked, length: _trial(context, asked, length),
        highest * _LEAST, highest, goal.Goal(
            trial_seconds=measure.seconds,
            sum_seconds=measure.seconds * (1 + measure.confirmations),
            width=measure.precision, trials_max=TRIALS_MAX))
    return [figures.Figure(
        '', 'packets/s', results.HIGHER, found.lower, list(found.marks),
        details={'upper': found.upper, 'forwarded': found.forwarded,
                 'trials': found.trials, 'software': context.details(),
                 'confirming_seconds': found.confirming_seconds})]


def _highest(context):
    """What the generator sends at most, packets/s."""
    done = context.traffic.measure(context.profile(), None,
                                   context.measure.seconds)
    return done.sent / done.seconds


def _trial(context, asked, length):
    done = context.traffic.measure(context.profile(), asked, length)
    disturbed = [mark for mark in done.marks if mark.startswith(_DISTURBED)]
    return trials.of(done, '; '.join(disturbed) or None)
