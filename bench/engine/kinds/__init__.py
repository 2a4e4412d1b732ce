# SPDX-License-Identifier: Apache-2.0
"""What scenarios can measure: a module for each kind of their "measure".

A kind has seconds(measure), which returns its duration if nothing delays it,
and run(context), which returns the figures of one round.
"""

import importlib
from typing import Protocol

from bench.engine import context as contexts
from bench.engine import figures
from bench.scenarios import model


class Kind(Protocol):
    """The interface of a kind's module.

    :cvar NEEDS_GENERATOR: its traffic comes from bench.traffic.generator.
    """

    NEEDS_GENERATOR: bool

    def seconds(self, measure: model.Measure) -> float: ...

    # Some also have before(bed, services, measure), a context that is entered
    # before the software under test is deployed.

    def run(self, context: contexts.Context) -> list[figures.Figure]: ...


def load(name: str) -> Kind:
    """:param name: one of bench.scenarios.schema.KINDS."""
    return importlib.import_module(  # type: ignore[return-value]
        f'{__name__}.{name}')


def seconds(measure: model.Measure) -> float:
    return load(measure.kind).seconds(measure)
