# SPDX-License-Identifier: Apache-2.0
"""What scenarios find out: a module for each kind of their "measure".

A kind has seconds(measure), how long it takes where nothing is in its way,
and run(context), which finds the figures of one round.
"""

import importlib
from typing import Protocol

from bench.engine import context as contexts
from bench.engine import figures
from bench.scenarios import model


class Kind(Protocol):
    """What a module here has.

    :cvar NEEDS_SOURCE: its traffic is of a traffic.interface.Source.
    """

    NEEDS_SOURCE: bool

    def seconds(self, measure: model.Measure) -> float: ...

    # Some have before(bed, services, measure), too: a context that is entered
    # before the software under test is deployed.

    def run(self, context: contexts.Context) -> list[figures.Figure]: ...


def load(name: str) -> Kind:
    """:param name: of bench.scenarios.schema.KINDS."""
    return importlib.import_module(  # type: ignore[return-value]
        f'{__name__}.{name}')


def seconds(measure: model.Measure) -> float:
    return load(measure.kind).seconds(measure)
