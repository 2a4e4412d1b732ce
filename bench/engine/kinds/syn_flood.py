# SPDX-License-Identifier: Apache-2.0
"""Established flows during a flood of SYNs with spoofed sources.

The flood goes to the same services. Figures are loss and latency of the
established flows, and how much of the flood was forwarded.
"""

from bench.engine import context as contexts
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model
from bench.traffic import interface as traffic

NEEDS_GENERATOR = True
# Large networks without a host of any bed.
_SOURCES = '20.0.0.0/8'
_SOURCES_V6 = '2001:db8:f100::/40'
_SIZE = 82


def seconds(measure: model.Measure) -> float:
    return measure.seconds + 2


def run(context: contexts.Context) -> list[figures.Figure]:
    flood = context.profile(
        kind='syn', flows=0, sources=_SOURCES, sources_v6=_SOURCES_V6,
        sizes=((_SIZE + 20 * (context.variant.services.family == 6), 1),))
    done = context.traffic.measure(
        context.profile(), context.measure.rate, context.measure.seconds,
        background=[traffic.Background(flood, context.measure.flood_rate)])
    sent, received = done.background[0]
    details = {**figures.of_measurement(done), 'software': context.details()}

    def figure(part, unit, better, value):
        return figures.Figure(part, unit, better, value, list(done.marks),
                              details=details)
    measured = [figure('loss', '1', results.LOWER, done.loss),
                figure('flood', 'packets/s', results.HIGHER,
                       received / done.seconds),
                figure('flood offered', 'packets/s', results.HIGHER,
                       sent / done.seconds)]
    if done.latency_ns is not None:
        measured.append(figure('p99', 'ns', results.LOWER,
                               done.latency_ns['p99']))
    return measured
