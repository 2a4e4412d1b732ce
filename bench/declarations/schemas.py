# SPDX-License-Identifier: Apache-2.0
"""Describes where data violate a JSON schema.

Additional formats: "address" (IPv4 or IPv6), "network" (198.18.1.0/24, without
host bits), "interface" (198.18.1.1/24).
"""

from collections.abc import Iterator
from collections.abc import Mapping
import difflib
import ipaddress
import json
import re
from typing import Any

import jsonschema

Keys = tuple[str | int, ...]

FORMATS = jsonschema.FormatChecker(())
for _format, _type in (('address', ipaddress.ip_address),
                       ('network', ipaddress.ip_network),
                       ('interface', ipaddress.ip_interface)):
    FORMATS.checks(_format, ValueError)(
        lambda value, of=_type: not isinstance(value, str) or bool(of(value)))
_FORMAT_TEXTS = {
    'address': 'an IPv4 or IPv6 address',
    'network': 'a network without host bits, as in 198.18.1.0/24',
    'interface': 'an address with the length of its network, as in '
                 '198.18.1.1/24',
}
_TYPE_TEXTS = {
    'object': 'a mapping', 'array': 'a list', 'string': 'a text',
    'integer': 'a whole number', 'number': 'a number', 'boolean': 'yes or no',
    'null': 'nothing',
}
_WANTED = {
    'const': '{}', 'minimum': '{} or more', 'exclusiveMinimum': 'more than {}',
    'maximum': '{} or less', 'exclusiveMaximum': 'less than {}',
    'minItems': 'of {} or more', 'minProperties': 'of {} or more',
    'maxItems': 'of {} or fewer', 'minLength': 'of {} characters or more',
    'uniqueItems': 'without anything twice',
}
_SHOWN_CHARACTERS = 60


def mistakes(data: Any, schema: Mapping[str, Any],
             ) -> Iterator[tuple[Keys, str]]:
    """Yield (path, description) of each mistake.

    :raises jsonschema.SchemaError: the schema itself is wrong.
    """
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=FORMATS)
    for error in validator.iter_errors(data):
        if error.context:
            # Among alternatives, describe the closest one.
            error = jsonschema.exceptions.best_match([error])
        yield from _texts(error)


def _texts(error) -> Iterator[tuple[Keys, str]]:
    keys = tuple(error.absolute_path)
    if error.validator == 'additionalProperties':
        known = sorted(error.schema.get('properties', {}))
        patterns = error.schema.get('patternProperties', {})
        for key in error.instance:
            if key not in known and not any(
                    re.search(pattern, str(key)) for pattern in patterns):
                yield (*keys, key), _unknown(key, keys, known)
    elif error.validator == 'required':
        for key in error.validator_value:
            if key not in error.instance:
                yield keys, f'{_name(keys)} has no "{key}"'
    elif 'propertyNames' in error.absolute_schema_path:
        yield (*keys, error.instance), (
            f'the name "{error.instance}" in {_name(keys)} has to be '
            f'{_wanted(error)}')
    else:
        yield keys, (f'{_name(keys)} is {_shown(error.instance)}: it has to '
                     f'be {_wanted(error)}')


def _unknown(key, keys, known):
    close = difflib.get_close_matches(str(key), known, 1)
    meant = f'; did you mean "{close[0]}"?' if close else ''
    return (f'unknown key "{key}" in {_name(keys)}{meant}; it may have: '
            f'{", ".join(known)}')


def _wanted(error) -> str:
    value, schema = error.validator_value, error.schema
    match error.validator:
        case 'type':
            types = [value] if isinstance(value, str) else value
            return ' or '.join(_TYPE_TEXTS[name] for name in types)
        case 'enum':
            return 'one of: ' + ', '.join(str(item) for item in value)
        case 'format':
            return _FORMAT_TEXTS.get(value, value)
        case 'pattern':
            return schema.get('description', f'as in {value}')
    text = _WANTED.get(error.validator)
    return text.format(value) if text else error.message


def _name(keys: Keys) -> str:
    text = ''
    for key in keys:
        text += f'[{key}]' if isinstance(key, int) else f'.{key}'
    return text.removeprefix('.') or 'the declaration'


def _shown(value) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f'{text[:_SHOWN_CHARACTERS]}…'
