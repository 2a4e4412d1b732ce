# SPDX-License-Identifier: Apache-2.0
"""Finds software under test by name, and checks its configuration.

Modules are imported on demand, since a run needs few of them.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import importlib
from typing import Any

from bench import errors
from bench.software import interface

_KINDS = {
    'xdp': ('bench.software.xdp', 'Xdp'),
    'haproxy': ('bench.software.haproxy', 'Haproxy'),
    'nginx': ('bench.software.nginx', 'Nginx'),
    'ipvs': ('bench.software.ipvs', 'Ipvs'),
    'kernel': ('bench.software.kernel', 'Kernel'),
}
NAMES = tuple(_KINDS)


def make(name: str) -> interface.Software:
    """:raises BenchError: there is no software of this name."""
    try:
        module, kind = _KINDS[name]
    except KeyError:
        raise errors.BenchError(f'no software "{name}": there are '
                                + ', '.join(NAMES)) from None
    return getattr(importlib.import_module(module), kind)()


def mistakes(name: str, configuration: Mapping[str, Any],
             ) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (keys below that of the software, what is wrong)."""
    try:
        software = make(name)
    except errors.BenchError as error:
        yield ('name',), str(error)
        return
    for key, value in configuration.items():
        try:
            software.check({key: value})
        except errors.BenchError as error:
            yield ('configuration', key), str(error)
