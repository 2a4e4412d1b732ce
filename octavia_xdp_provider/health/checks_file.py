# SPDX-License-Identifier: Apache-2.0
"""Writer of a checks file, which tells the health checker what to probe.

The format is described by ``contracts/checks.schema.json``; see
``doc/source/reference/checks-file.rst``.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import functools
import ipaddress
import json
import os
import pathlib
from typing import Any

import jsonschema

from octavia_xdp_provider.health.checks import Check
from octavia_xdp_provider.health.checks import compute_key
from octavia_xdp_provider.health.checks import Condition
from octavia_xdp_provider.health.checks import Group
from octavia_xdp_provider.health.checks import HttpOptions
from octavia_xdp_provider.health.checks import Keys
from octavia_xdp_provider.health.checks import SCHEMA
from octavia_xdp_provider.health.checks import TlsOptions
from octavia_xdp_provider.health.checks import UNKEYED

# Everything that users of the file need.
__all__ = [
    'SCHEMA', 'UNKEYED', 'VERSION', 'Check', 'ChecksFileError', 'Condition',
    'Group', 'HttpOptions', 'Keys', 'TlsOptions', 'build_document',
    'compute_key', 'encode', 'load', 'select', 'validate',
]

VERSION = 1

_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


class ChecksFileError(ValueError):
    """A document that the health checker would refuse."""


def build_document(
    checks: Iterable[Check],
    conditions: Iterable[Condition] = (),
    groups: Iterable[Group] = (),
    kept: Mapping[str, Any] | None = None,
    keys: Keys = UNKEYED,
    patience: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the document for some checks; equal ones are merged.

    :param kept: further parts, of an earlier document; see ``select``. Given
        groups replace kept ones of the same name, and patience of a kept
        check is ignored if the check is also given.
    :param patience: seconds, by the keys of checks that have some.
    :raises ChecksFileError: the health checker would refuse it.
    """
    by_key: dict[str, dict[str, Any]] = {}
    good = True
    patience = dict(patience or {})
    for check in checks:
        key = keys.of(check)
        fields = {'key': key, **check.as_dict()}
        other = by_key.setdefault(key, fields)
        if other != fields:
            raise ChecksFileError(f'key {key} stands for two checks')
        good = good and _is_good(check)
    kept, given = kept or {}, set(by_key)
    for fields in kept.get('checks', ()):
        by_key.setdefault(fields['key'], fields)
    for fields in kept.get('patience', ()):
        for key in fields['checks']:
            if key not in given:
                patience[key] = max(fields['seconds'], patience.get(key, 0))
    document = {
        'version': VERSION,
        'checks': [by_key[key] for key in sorted(by_key)],
    }
    joined = {fields['key']: fields for fields in kept.get('conditions', ())}
    for condition in conditions:
        key = keys.of(condition)
        joined[key] = {'key': key, **condition.as_dict()}
    if joined:
        document['conditions'] = [joined[key] for key in sorted(joined)]
    guarded = {fields['name']: fields for fields in kept.get('groups', ())}
    guarded.update((group.name, group.as_dict()) for group in groups)
    if guarded:
        document['groups'] = [guarded[name] for name in sorted(guarded)]
    if patience:
        document['patience'] = [
            {'seconds': seconds, 'checks': sorted(
                key for key, own in patience.items() if own == seconds)}
            for seconds in sorted(set(patience.values()))]
    if good:
        # Checking known checks by the schema again would take milliseconds.
        _check_schema({**document, 'checks': []})
        _check_together(document, set(by_key))
    else:
        validate(document)
    return document


def _is_good(check: Check) -> bool:
    """Return whether the schema accepts a check that was built here."""
    return (
        (check.port is None or check.type == 'ping'
         or _in_range('port', check.port))
        and (check.mark is None or _in_range('mark', check.mark))
        and _is_good_kind(dataclasses.replace(
            check, address='192.0.2.1', mark=None,
            port=None if check.port is None else 1))
    )


def _in_range(name: str, value: int) -> bool:
    field = SCHEMA['$defs']['check']['properties'][name]
    return bool(field['minimum'] <= value <= field['maximum'])


@functools.lru_cache(1024)
def _is_good_kind(check: Check) -> bool:
    """The same with one value for fields that differ among members."""
    try:
        validate({'version': VERSION, 'checks': [
            {'key': '0' * 15 + '1', **check.as_dict()}]})
    except ChecksFileError:
        return False
    return True


def select(
    document: Mapping[str, Any], keys: frozenset[str]
) -> dict[str, Any]:
    """Return the part of a document that determines the states of some keys.

    It includes the checks of their conditions, the groups all of whose keys
    are among them, and the patience of these checks.
    """
    conditions = [condition for condition in document.get('conditions', ())
                  if condition['key'] in keys]
    needed = keys.union(*(condition['checks'] for condition in conditions))
    return {
        'checks': [check for check in document['checks']
                   if check['key'] in needed],
        'conditions': conditions,
        'groups': [group for group in document.get('groups', ())
                   if keys.issuperset(group['checks'])],
        'patience': [{**patience, 'checks': checks}
                     for patience in document.get('patience', ())
                     if (checks := [key for key in patience['checks']
                                    if key in needed])],
    }


def validate(document: Any) -> None:
    """Refuse a document that the health checker would refuse.

    :raises ChecksFileError: naming the field.
    """
    _check_schema(document)
    seen: dict[str, int] = {}
    for i, check in enumerate(document['checks']):
        where = f'checks[{i}]'
        first = seen.setdefault(check['key'], i)
        if first != i:
            raise ChecksFileError(
                f'{where}.key: {check["key"]} is also the key of '
                f'checks[{first}]'
            )
        _check_address(where, check['address'])
        if 'http' in check:
            _check_codes(where, check['http']['expected_codes'])
    _check_together(document, set(seen))


def _check_schema(document: Any) -> None:
    error = jsonschema.exceptions.best_match(_VALIDATOR.iter_errors(document))
    if error is not None:
        raise ChecksFileError(
            f'{_format_path(error.absolute_path)}: {_short(error.message)}'
        )


def _short(text: str) -> str:
    """Cut an error about a long file to one line."""
    return text if len(text) <= 200 else f'{text[:200]}…'


def _check_together(document: dict[str, Any], known: set[str]) -> None:
    for i, patience in enumerate(document.get('patience', ())):
        _check_keys(f'patience[{i}].checks', patience['checks'], known)
    conditions = document.get('conditions', ())
    for i, condition in enumerate(conditions):
        _check_keys(f'conditions[{i}].checks', condition['checks'], known)
    for i, condition in enumerate(conditions):
        if condition['key'] in known:
            raise ChecksFileError(
                f'conditions[{i}].key: {condition["key"]} is also the key '
                'of something else'
            )
        known.add(condition['key'])
    names = set()
    for i, group in enumerate(document.get('groups', ())):
        _check_keys(f'groups[{i}].checks', group['checks'], known)
        if group['name'] in names:
            raise ChecksFileError(
                f'groups[{i}].name: {group["name"]} is also the name of '
                'another group'
            )
        names.add(group['name'])


def _check_keys(where: str, keys: list[str], known: set[str]) -> None:
    for i, key in enumerate(keys):
        if key not in known:
            raise ChecksFileError(
                f'{where}[{i}]: {key} is not the key of a check'
            )


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the document of a file.

    :raises OSError: the file cannot be read.
    :raises ChecksFileError: if the health checker would refuse it.
    """
    try:
        document: dict[str, Any] = json.loads(pathlib.Path(path).read_bytes())
    except ValueError as error:
        raise ChecksFileError(f'document: {error}') from None
    validate(document)
    return document


def encode(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, separators=(',', ':')) + '\n').encode()


def _format_path(path: Iterable[str | int]) -> str:
    """Format a path into the document: ``checks[3].http.path``."""
    text = ''
    for part in path:
        if isinstance(part, int):
            text += f'[{part}]'
        else:
            text += f'.{part}' if text else part
    return text or 'document'


def _check_address(where: str, address: str) -> None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError as e:
        raise ChecksFileError(f'{where}.address: {e}') from None
    if getattr(parsed, 'scope_id', None) is not None:
        raise ChecksFileError(f'{where}.address: {address} has a scope')


def _check_codes(where: str, ranges: list[list[int]]) -> None:
    for i, (first, last) in enumerate(ranges):
        if first > last:
            raise ChecksFileError(
                f'{where}.http.expected_codes[{i}]: {first} is above {last}'
            )
