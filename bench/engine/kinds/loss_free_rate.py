# SPDX-License-Identifier: Apache-2.0
"""The highest rate without loss, by search (bench/search)."""

from bench.engine import context as contexts
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model
from bench.search import goal
from bench.search import rate

NEEDS_GENERATOR = True
TRIALS_MAX = 24
# Part of the highest rate below which the search ends without a result.
_LEAST = 1e-3
# Additional seconds of a trial, until no more packets arrive.
_TRIAL_S = 0.8
_TRIALS_USUAL = 14
# Prefixes of marks that make a trial meaningless. A rate that was too low is
# detected by itself, and packets that a full queue rejects are loss.
_DISTURBED = ('the clock', 'foreign traffic', 'ended early',
              'packets still arrived')


def seconds(measure: model.Measure) -> float:
    return _TRIALS_USUAL * (measure.seconds + _TRIAL_S)


def run(context: contexts.Context) -> list[figures.Figure]:
    measure = context.measure
    highest = measure.rate or _highest(context)
    result = rate.search(
        lambda asked, length: _trial(context, asked, length),
        highest * _LEAST, highest, goal.Goal(
            trial_seconds=measure.seconds,
            sum_seconds=measure.seconds * (1 + measure.confirmations),
            width=measure.precision, trials_max=TRIALS_MAX))
    return [figures.Figure(
        '', 'packets/s', results.HIGHER, result.lower, list(result.marks),
        details={'upper': result.upper, 'forwarded': result.forwarded,
                 'trials': result.trials, 'software': context.details(),
                 'confirming_seconds': result.confirming_seconds})]


def _highest(context):
    """Return the highest rate of the generator, packets/s."""
    done = context.traffic.measure(context.profile(), None,
                                   context.measure.seconds)
    return done.sent / done.seconds


def _trial(context, asked, length):
    done = context.traffic.measure(context.profile(), asked, length)
    disturbed = [mark for mark in done.marks if mark.startswith(_DISTURBED)]
    return goal.Trial(asked, done.seconds, done.sent, done.lost,
                      '; '.join(disturbed) or None)
