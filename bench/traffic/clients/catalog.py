# SPDX-License-Identifier: Apache-2.0
"""Finds clients by their names in scenarios."""

import dataclasses
from typing import Any

from bench import errors
from bench.traffic.clients import h2load
from bench.traffic.clients import iperf3
from bench.traffic.clients import result
from bench.traffic.clients import wrk

KINDS = {kind.name: kind for kind in (wrk.Wrk, h2load.H2load, iperf3.Iperf3)}
_OWN = ('name', 'unit')


def make(name: str, /, **options: Any) -> result.Client:
    """:raises BenchError: the name or an option is unknown."""
    if name not in KINDS:
        raise errors.BenchError(f'no client "{name}"; there are: '
                                f'{", ".join(sorted(KINDS))}')
    kind = KINDS[name]
    known = [field.name for field in dataclasses.fields(kind)
             if field.name not in _OWN]
    for option in options:
        if option not in known:
            raise errors.BenchError(
                f'client {name}: unknown option "{option}"; there are: '
                f'{", ".join(sorted(known))}')
    return kind(**options)
