# SPDX-License-Identifier: Apache-2.0
"""Metadata of Octavia's profiles, of flavors and of availability zones.

What a profile may say is a JSON Schema (draft 2020-12), made of its keys:
nothing beside them, and each with its description.
"""

from collections.abc import Mapping
import dataclasses
import functools
import json
from typing import Any

import jsonschema
from jsonschema import validators

from octavia_xdp_provider.common import errors

Schema = Mapping[str, Any]


def _is_integer(_checker: object, value: object) -> bool:
    """JSON's 1.0 is no whole number here: it would be written as one."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        'integer', _is_integer))


@dataclasses.dataclass(frozen=True)
class Key:
    """A key: what it means, which values it takes, and the default.

    ``values`` describes in words what ``schema`` lets by; ``absent`` what
    happens without the key where no value says it.
    """

    meaning: str
    values: str
    schema: Schema
    default: Any = None
    absent: str | None = None


class Profile:
    """The keys of one kind of profile.

    :param rules: of the schema over several keys.
    :ivar schema: the whole document.
    """

    def __init__(self, title: str, keys: Mapping[str, Key],
                 rules: Schema | None = None) -> None:
        self._keys = keys
        self.schema: Schema = {
            '$schema': 'https://json-schema.org/draft/2020-12/schema',
            'title': title, 'type': 'object', 'additionalProperties': False,
            'properties': {name: {**key.schema, 'description': key.meaning}
                           for name, key in keys.items()},
            **(rules or {})}
        self._validators = {name: _Validator(key.schema)
                            for name, key in keys.items()}
        self._whole = _Validator(self.schema)
        # Documents are read far more often than there are profiles.
        self._problem = functools.lru_cache(1024)(self._problem_of)

    def accepts(self, metadata: Any) -> bool:
        """Whether the whole schema does."""
        return bool(self._whole.is_valid(metadata))

    def problem(self, metadata: Any) -> errors.Problem | None:
        """What is wrong with the keys of metadata, each by itself.

        :param metadata: JSON.
        :returns: None or a tuple (why, instead), see errors.Refused.
        """
        if not isinstance(metadata, dict):
            return f'{metadata!r} has no keys', 'use a JSON object'
        return self._problem(json.dumps(metadata))

    def _problem_of(self, text: str) -> errors.Problem | None:
        for name, given in json.loads(text).items():
            if name not in self._keys:
                return (f'key {name!r} is unknown',
                        f'use {", ".join(sorted(self._keys))}')
            if not self._validators[name].is_valid(given):
                return (f'key {name!r} has the value {given!r}',
                        f'use {self._keys[name].values}')
        return None
