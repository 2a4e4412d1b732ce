# SPDX-License-Identifier: Apache-2.0
"""Latency, loss and costs at a given rate."""

from bench.engine import context as contexts
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model

NEEDS_GENERATOR = True
_PERCENTILES = ('p50', 'p99')


def seconds(measure: model.Measure) -> float:
    return 2 * (measure.seconds + 1) + 1


def run(context: contexts.Context) -> list[figures.Figure]:
    done = _measure(context)
    # Again for costs alone: attributing them changes how packets are received
    # (bench/software/cost.py).
    before = context.deployment.cpu_seconds()
    costly = _measure(context)
    used = context.deployment.cpu_seconds() - before
    details = {**figures.of_measurement(done), 'software': context.details()}

    def figure(part, unit, value, of=done):
        return figures.Figure(part, unit, results.LOWER, value,
                              list(of.marks), details=details)
    measured = [figure('loss', '1', done.loss),
                figure('reordered', 'packets', done.reordered)]
    if done.latency_ns is not None:
        measured += [figure(name, 'ns', done.latency_ns[name])
                     for name in _PERCENTILES]
    if costly.received:
        measured.append(figure('cpu', 's/million packets',
                               used / costly.received * 1e6, costly))
    measured.append(figure('memory', 'bytes',
                           context.deployment.memory_bytes(), costly))
    return measured


def _measure(context):
    return context.traffic.measure(
        context.profile(), context.measure.rate, context.measure.seconds)
