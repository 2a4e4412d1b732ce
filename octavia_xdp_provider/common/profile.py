# SPDX-License-Identifier: Apache-2.0
"""Metadata of Octavia's profiles, of flavors and of availability zones."""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
from typing import Any

from octavia_xdp_provider.common import errors


@dataclasses.dataclass(frozen=True)
class Key:
    """A key: what it means, which values it takes, and the default.

    ``values`` describes in words what ``accepts`` lets by; ``absent`` what
    happens without the key where no value says it.
    """

    meaning: str
    values: str
    accepts: Callable[[Any], bool]
    default: Any = None
    absent: str | None = None


def problem(metadata: Any, keys: Mapping[str, Key]) -> errors.Problem | None:
    """What is wrong with the keys of metadata, each by itself.

    :returns: None or a tuple (why, instead), see errors.Refused.
    """
    if not isinstance(metadata, dict):
        return f'{metadata!r} has no keys', 'use a JSON object'
    for key, given in metadata.items():
        if key not in keys:
            return f'key {key!r} is unknown', f'use {", ".join(sorted(keys))}'
        if not keys[key].accepts(given):
            return (f'key {key!r} has the value {given!r}',
                    f'use {keys[key].values}')
    return None
