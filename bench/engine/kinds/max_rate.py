# SPDX-License-Identifier: Apache-2.0
"""The rate that arrives while the generator sends as fast as it can. Loss is
allowed (RFC 2544, 26.1, calls the rate without loss throughput)."""

from bench.engine import context as contexts
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model

NEEDS_GENERATOR = True


def seconds(measure: model.Measure) -> float:
    return measure.seconds + 1


def run(context: contexts.Context) -> list[figures.Figure]:
    done = context.traffic.measure(context.profile(), None,
                                   context.measure.seconds)
    return [figures.Figure(
        '', 'packets/s', results.HIGHER, done.rate, done.marks,
        details={**figures.of_measurement(done),
                 'software': context.details()})]
