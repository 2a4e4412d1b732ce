# SPDX-License-Identifier: Apache-2.0
"""Runs one round of a case, with newly started software and traffic."""

import contextlib

from bench.beds import interface as beds
from bench.engine import context as contexts
from bench.engine import figures
from bench.engine import kinds
from bench.engine import plan
from bench.engine import receiving
from bench.engine import services
from bench.engine import surroundings
from bench.software import interface as software
from bench.traffic import generator


def run(step: plan.Step, bed: beds.Bed, subject: software.Software,
        ) -> list[figures.Figure]:
    """:raises BenchError: the case cannot be measured."""
    variant = step.variant
    kind = kinds.load(variant.measure.kind)
    spares = sum(event.do == 'member_added' for event in variant.events)
    with contextlib.ExitStack() as stack:
        wanted, more = stack.enter_context(
            services.on(bed, variant.services, spares))
        if before := getattr(kind, 'before', None):
            stack.enter_context(before(bed, wanted, variant.measure))
        deployment = stack.enter_context(subject.deploy(
            bed, wanted, step.software.configuration))
        context = contexts.Context(bed, variant, step.software, wanted,
                                   deployment, more)
        if kind.NEEDS_GENERATOR:
            stack.enter_context(receiving.ready(bed))
            context.traffic = stack.enter_context(generator.opened(bed))
        watch = surroundings.Watch(load=not bed.counts_instructions)
        with watch.watching() as marks:
            results = kind.run(context)
    for figure in results:
        figure.marks += marks
    return results
