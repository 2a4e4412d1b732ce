# SPDX-License-Identifier: Apache-2.0
"""Finds software and providers of beds by name.

Modules are imported on demand, since a run needs few of them.
"""

import importlib
from typing import Any

from bench import errors
from bench.beds import declaration
from bench.beds import interface as beds
from bench.software import catalog
from bench.software import interface as software

_PROVIDERS = {name: (f'bench.beds.{name}', 'Provider')
              for name in declaration.PROVIDERS}


def software_of(name: str) -> software.Software:
    """:raises BenchError: there is no software of this name."""
    return catalog.make(name)


def provider_of(name: str) -> beds.Provider:
    return _find(_PROVIDERS, 'provider', name)


def _find(known: dict[str, tuple[str, str]], what: str, name: str) -> Any:
    try:
        module, kind = known[name]
    except KeyError:
        raise errors.BenchError(
            f'no {what} "{name}": there are {", ".join(known)}') from None
    return getattr(importlib.import_module(module), kind)()
