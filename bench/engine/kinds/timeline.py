# SPDX-License-Identifier: Apache-2.0
"""Loss during events, by tenths of a second."""

from bench.engine import context as contexts
from bench.engine import events
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model

NEEDS_GENERATOR = True


def seconds(measure: model.Measure) -> float:
    return measure.seconds + 2


def run(context: contexts.Context) -> list[figures.Figure]:
    with events.Script(context) as script:
        done = context.traffic.measure(
            context.profile(), context.measure.rate, context.measure.seconds,
            during=script.play)
        # If events failed, loss is meaningless.
        script.check()
    line = context.traffic.timeline()
    details = {**figures.of_measurement(done), 'software': context.details()}
    measured = [
        figures.Figure('lost', 'packets', results.LOWER, done.lost),
        figures.Figure('flows_with_loss', 'flows', results.LOWER,
                       done.flows_with_loss),
        figures.Figure('reordered', 'packets', results.LOWER, done.reordered),
        figures.Figure('time_with_loss', 's', results.LOWER,
                       0.1 * sum(lost > 0 for _time, _sent, lost in line))]
    for figure in measured:
        figure.marks = [*done.marks, *script.marks]
        figure.details = details
        figure.timeline = line
        figure.events = script.done
    return measured
