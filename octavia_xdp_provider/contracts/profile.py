# SPDX-License-Identifier: Apache-2.0
"""Metadata of Octavia's profiles of flavors and availability zones.

A profile is described by a JSON Schema (draft 2020-12) that is built from its
keys: other keys are refused, and each key has a description.
"""

from collections.abc import Mapping
import dataclasses
import functools
import json
from typing import Any

import jsonschema
from jsonschema import validators

from octavia_xdp_provider.contracts import errors

Schema = Mapping[str, Any]


def _is_integer(_checker: object, value: object) -> bool:
    """Unlike JSON Schema, do not accept 1.0 as an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        'integer', _is_integer))


@dataclasses.dataclass(frozen=True)
class Key:
    """A key: its meaning, valid values and default.

    ``values`` describes in words what ``schema`` accepts; ``absent`` what
    happens without the key if no value expresses it.
    """

    meaning: str
    values: str
    schema: Schema
    default: Any = None
    absent: str | None = None


class Profile:
    """The keys of one kind of profile.

    :param rules: parts of the schema about several keys.
    :ivar schema: the complete schema.
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
        # There are far fewer profiles than documents to check.
        self._problem = functools.lru_cache(1024)(self._problem_of)

    def accepts(self, metadata: Any) -> bool:
        """Return whether metadata matches the complete schema."""
        return bool(self._whole.is_valid(metadata))

    def problem(self, metadata: Any) -> errors.Problem | None:
        """Return what is wrong with individual keys of metadata.

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
