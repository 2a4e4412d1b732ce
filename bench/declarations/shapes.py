# SPDX-License-Identifier: Apache-2.0
"""Parts of JSON schemas of declarations."""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {'type': 'string', 'minLength': 1}
BOOLEAN: Schema = {'type': 'boolean'}
ANY_MAPPING: Schema = {'type': 'object'}


def mapping(properties: dict[str, Any], *required: str) -> Schema:
    """Return the schema of a mapping with these keys and no others."""
    return {'type': 'object', 'properties': properties,
            'required': list(required), 'additionalProperties': False}


def by_name(items: Schema, names: Schema | None = None, least: int = 0,
            ) -> Schema:
    """Return the schema of a mapping with keys of the author's choice."""
    return {'type': 'object', 'additionalProperties': items,
            'minProperties': least, 'propertyNames': names or {}}


def listed(items: Schema, least: int = 1, **more: Any) -> Schema:
    """Return the schema of a list without anything twice."""
    return {'type': 'array', 'items': items, 'minItems': least,
            'uniqueItems': True, **more}


def pattern(expression: str, description: str) -> Schema:
    """:param description: what it has to be, for errors."""
    return {'type': 'string', 'pattern': expression,
            'description': description}


def form(name: str) -> Schema:
    """:param name: a format of schemas.py."""
    return {'type': 'string', 'format': name}


def whole(least: int, most: int | None = None) -> Schema:
    """Return the schema of a whole number."""
    return {'type': 'integer', 'minimum': least} | (
        {} if most is None else {'maximum': most})
