# SPDX-License-Identifier: Apache-2.0
"""Figures from named numbers, whose unit follows from the end of the name."""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from bench.engine import figures
from bench.results import model

# The end of a name → unit, factor, and which direction is better. Numbers with
# other names (of probes, of rounds) are no figures.
_SUFFIXES = {
    'changes_per_s': ('1/s', 1.0, model.HIGHER),
    'cpu_us_per_probe': ('s', 1e-6, model.LOWER),
    'cores': ('CPUs', 1.0, model.LOWER),
    'seconds': ('s', 1.0, model.LOWER),
    'ratio to floor': ('1', 1.0, model.LOWER),
    '_ns': ('ns', 1.0, model.LOWER),
    '_us': ('s', 1e-6, model.LOWER),
    '_ms': ('s', 1e-3, model.LOWER),
    '_mb': ('bytes', 1e6, model.LOWER),
    '_s': ('s', 1.0, model.LOWER),
    'failures': ('probes', 1.0, model.LOWER),
    'false_downs': ('checks', 1.0, model.LOWER),
    'not_up_at_the_end': ('checks', 1.0, model.LOWER),
    'broken_beyond': ('connections', 1.0, model.LOWER),
    'beyond': ('connections', 1.0, model.LOWER),
    'broken': ('connections', 1.0, model.LOWER),
    'broken_of_failed_nodes': ('connections', 1.0, model.LOWER),
    'not_opened': ('connections', 1.0, model.LOWER),
}


def figures_of(values: Mapping[str, Any], above: tuple[str, ...] = (),
               ) -> Iterator[figures.Figure]:
    """Yield figures of all nested numbers, named by their paths."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from figures_of(value, (*above, key))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            for suffix, (unit, scale, better) in _SUFFIXES.items():
                if key.endswith(suffix):
                    name = key.removesuffix(suffix) or suffix.strip('_')
                    yield figures.Figure('/'.join((*above, name)), unit,
                                         better, value * scale)
                    break
