# SPDX-License-Identifier: Apache-2.0
"""Writer of the checks file: what the health checker of this node probes.

The format is described by ``contracts/checks.schema.json``; see
``doc/source/contributor/checks-file.rst``.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import hashlib
from importlib import resources
import ipaddress
import json
import os
import pathlib
import re
from typing import Any

import jsonschema

from octavia_xdp_provider.common import atomic_file

VERSION = 1

SCHEMA: dict[str, Any] = json.loads(
    resources.files('octavia_xdp_provider.common')
    .joinpath('contracts').joinpath('checks.schema.json')
    .read_text(encoding='utf-8')
)
_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
_SERVER_NAME: str = SCHEMA['$defs']['tls']['properties']['server_name'][
    'pattern'
]


class ChecksFileError(ValueError):
    """A document that the health checker would refuse."""


@dataclasses.dataclass(frozen=True)
class HttpOptions:
    """What an HTTP check asks for and accepts."""

    method: str = 'GET'
    path: str = '/'
    version: str = '1.0'
    host: str | None = None
    expected_codes: tuple[tuple[int, int], ...] = ((200, 200),)

    def as_dict(self) -> dict[str, Any]:
        return {
            'method': self.method,
            'path': self.path,
            'version': self.version,
            'host': self.host,
            'expected_codes': [list(r) for r in self.expected_codes],
        }


@dataclasses.dataclass(frozen=True)
class TlsOptions:
    """What the ClientHello of an HTTPS or TLS-HELLO check says."""

    server_name: str | None = None

    @classmethod
    def for_host(cls, host: str | None) -> 'TlsOptions':
        """Return options with a host as the name, if it can be one.

        An address cannot, nor what only a Host header may hold.
        """
        if host is None or len(host) > 253:
            return cls()
        return cls(host if re.fullmatch(_SERVER_NAME, host) else None)

    def as_dict(self) -> dict[str, Any]:
        return {'server_name': self.server_name}


@dataclasses.dataclass(frozen=True)
class Check:
    """One target and how it is probed; delay and timeout in seconds.

    A ping has no port: whichever is given, equal pings are one. Packets of a
    check with a mark carry it (SO_MARK): checks of one address that differ in
    it may be sent different ways by the node.
    """

    type: str
    address: str
    port: int | None
    delay: int
    timeout: int
    rise: int = 3
    fall: int = 3
    http: HttpOptions | None = None
    tls: TlsOptions | None = None
    mark: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the check as the file spells it, without its key."""
        fields: dict[str, Any] = {
            'type': self.type,
            'address': str(ipaddress.ip_address(self.address)),
            'delay': self.delay,
            'timeout': self.timeout,
            'rise': self.rise,
            'fall': self.fall,
        }
        if self.type != 'ping':
            fields['port'] = self.port
        if self.mark is not None:
            fields['mark'] = self.mark
        if self.http is not None:
            fields['http'] = self.http.as_dict()
        if self.tls is not None:
            fields['tls'] = self.tls.as_dict()
        return fields

    @property
    def key(self) -> str:
        """The key: equal for equal checks, whoever asks for them."""
        return compute_key(self.as_dict())


@dataclasses.dataclass(frozen=True)
class Condition:
    """The conjunction of checks, known by their keys.

    One check alone needs none: its own key serves.
    """

    checks: frozenset[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the condition as the file spells it, without its key."""
        return {'checks': sorted(self.checks)}

    @property
    def key(self) -> str:
        """The key: equal for equal conditions, whoever asks for them."""
        return compute_key(self.as_dict())


@dataclasses.dataclass(frozen=True)
class Group:
    """Keys of checks and conditions that are guarded together.

    While less than ``panic_percent`` of them are not down, the health
    checker reports none down that was not before.
    """

    name: str
    keys: frozenset[str]
    panic_percent: int

    def as_dict(self) -> dict[str, Any]:
        """Return the group as the file spells it."""
        return {
            'name': self.name,
            'checks': sorted(self.keys),
            'panic_percent': self.panic_percent,
        }


def compute_key(check: Mapping[str, Any]) -> str:
    """Compute the key of a check or condition as a document holds it."""
    fields = {k: v for k, v in check.items() if k != 'key'}
    text = json.dumps(
        fields, sort_keys=True, separators=(',', ':'), ensure_ascii=True
    )
    digest = hashlib.sha256(text.encode('ascii')).hexdigest()[:16]
    # Zero is no key. Nobody will ever see this happen.
    return digest if int(digest, 16) else '0' * 15 + '1'


def build_document(
    checks: Iterable[Check],
    conditions: Iterable[Condition] = (),
    groups: Iterable[Group] = (),
    kept: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the document for some checks; equal ones become one.

    :param kept: what an earlier document holds besides; see ``select``.
        A group of the same name gives way.
    :raises ChecksFileError: if the health checker would refuse it.
    """
    by_key: dict[str, dict[str, Any]] = {}
    for check in checks:
        fields = check.as_dict()
        key = compute_key(fields)
        other = by_key.setdefault(key, {'key': key, **fields})
        if other != {'key': key, **fields}:
            raise ChecksFileError(f'key {key} stands for two checks')
    kept = kept or {}
    for fields in kept.get('checks', ()):
        by_key.setdefault(fields['key'], fields)
    document = {
        'version': VERSION,
        'checks': [by_key[key] for key in sorted(by_key)],
    }
    joined = {fields['key']: fields for fields in kept.get('conditions', ())}
    for condition in conditions:
        joined[condition.key] = {
            'key': condition.key, **condition.as_dict()}
    if joined:
        document['conditions'] = [joined[key] for key in sorted(joined)]
    guarded = {fields['name']: fields for fields in kept.get('groups', ())}
    guarded.update((group.name, group.as_dict()) for group in groups)
    if guarded:
        document['groups'] = [guarded[name] for name in sorted(guarded)]
    validate(document)
    return document


def select(
    document: Mapping[str, Any], keys: frozenset[str]
) -> dict[str, Any]:
    """Return the part of a document that decides the states of some keys.

    With the checks of their conditions, and the groups of which they are
    all.
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
    }


def validate(document: Any) -> None:
    """Refuse a document that the health checker would refuse.

    :raises ChecksFileError: naming the field.
    """
    error = jsonschema.exceptions.best_match(_VALIDATOR.iter_errors(document))
    if error is not None:
        raise ChecksFileError(
            f'{_spell(error.absolute_path)}: {error.message}'
        )
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


def _check_together(document: dict[str, Any], known: set[str]) -> None:
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


def write(
    path: str | os.PathLike[str],
    checks: Iterable[Check],
    mode: int = 0o644,
    conditions: Iterable[Condition] = (),
    groups: Iterable[Group] = (),
    kept: Mapping[str, Any] | None = None,
) -> bool:
    """Write the whole file beside its place, then rename it.

    A reader sees the old file or the new one, also after a power cut.

    :returns: False if the file had this content already and was left alone.
    :raises ChecksFileError: if the health checker would refuse it.
    """
    document = build_document(checks, conditions, groups, kept)
    data = (json.dumps(document, separators=(',', ':')) + '\n').encode()
    return atomic_file.replace(path, data, mode)


def _spell(path: Iterable[str | int]) -> str:
    """Spell a path into the document: ``checks[3].http.path``."""
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
