# SPDX-License-Identifier: Apache-2.0
"""Latency, loss and costs at a rate that is given."""

from bench.engine import context as contexts
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model

_PERCENTILES = ('p50', 'p99')


def seconds(measure: model.Measure) -> float:
    return measure.seconds + 2


def run(context: contexts.Context) -> list[figures.Figure]:
    before = context.deployment.cpu_seconds()
    done = context.traffic.measure(
        context.profile(), context.measure.rate, context.measure.seconds)
    used = context.deployment.cpu_seconds() - before
    details = {**figures.of_measurement(done), 'software': context.details()}

    def figure(part, unit, value):
        return figures.Figure(part, unit, results.LOWER, value,
                              list(done.marks), details=details)
    found = [figure('loss', '1', done.loss)]
    if done.latency_ns is not None:
        found += [figure(name, 'ns', done.latency_ns[name])
                  for name in _PERCENTILES]
    if done.received:
        found.append(figure('cpu', 's/million packets',
                            used / done.received * 1e6))
    found.append(figure('memory', 'bytes',
                        context.deployment.memory_bytes()))
    return found
