# SPDX-License-Identifier: Apache-2.0
"""Checks that JSON has a type, and names the field that does not.

It uses pydantic, which reads the same types as mypy, so that each field is
defined once, and takes microseconds where jsonschema takes milliseconds,
which matters on a node with a thousand load balancers.
"""

from collections.abc import Collection
from collections.abc import Mapping
import typing
from typing import Any

import pydantic
import pydantic_core
import typing_extensions

from octavia_xdp_provider.contracts import errors

# No conversions: a text is not accepted as a number, no field is ignored.
strict = pydantic.with_config(
    pydantic.ConfigDict(strict=True, extra='forbid'))

# Characters of a value that are shown in an error.
_VALUE_MAX = 60

_UNKNOWN = 'extra_forbidden'


def partial(type_: Any, without: Collection[str] = (),
            **replaced: Any) -> Any:
    """Return the type of a change: any field may be missing or null.

    :param type_: a TypedDict.
    :param without: fields that a change must not have.
    :param replaced: types, by field name, that replace those of ``type_``.
    """
    fields = {}
    for name, annotation in type_.__annotations__.items():
        if name in without:
            continue
        annotation = replaced.get(name, annotation)
        if typing_extensions.get_origin(annotation) in (
                typing_extensions.NotRequired, typing_extensions.Required):
            annotation, = typing.get_args(annotation)
        fields[name] = typing.Optional[annotation]  # noqa: UP045
    return strict(typing_extensions.TypedDict(  # type: ignore[operator]
        f'{type_.__name__}Fields', fields, total=False))


def by_id(type_: Any) -> Any:
    """Return the type of an object that maps ids to values of this type."""
    return dict[str, type_]


class Shape:
    """A type that JSON is checked against."""

    def __init__(self, type_: Any) -> None:
        self._adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(type_)

    def check(self, value: object, within: str = '') -> None:
        """Check a value without changing it.

        :param within: path of the value, prepended to paths in errors.
        :raises Refused: names the path of the first wrong field.
        """
        for error in self._errors(value):
            path = '.'.join(filter(None, (within, _path(error))))
            raise errors.Refused(path or 'document', *_problem(error))

    def unknown_fields(self, value: object) -> list[str]:
        """Return the paths of all fields that the type does not have."""
        return [_path(error) for error in self._errors(value)
                if error['type'] == _UNKNOWN]

    def _errors(self, value: object) -> list[pydantic_core.ErrorDetails]:
        try:
            self._adapter.validate_python(value)
        except pydantic.ValidationError as error:
            return error.errors(include_url=False)
        return []


def check_version(document: object, newest: int, known: Shape | None = None
                  ) -> dict[str, Any]:
    """Check the version of a document that another process wrote; return it.

    :param known: the newest document; the error names fields it lacks.
    :raises Refused: the document is no JSON object, or its version is not
        known here.
    """
    if not isinstance(document, dict):
        raise errors.Refused('document', f'it is a {type(document).__name__}',
                             'send a JSON object')
    version = document.get('version')
    if type(version) is not int or version < 1:
        raise errors.Refused('version', f'the value {version!r} is none',
                             f'use {newest}')
    if version > newest:
        unknown = '' if known is None else (
            '; fields that are not known: ' +
            (', '.join(known.unknown_fields(document)) or 'none'))
        raise errors.Refused(
            'version', f'{version} is newer than {newest}, the newest that '
            f'is known here{unknown}', 'upgrade this process')
    return document


def arguments(**types: Any) -> Shape:
    """Return the shape of a method's arguments, given by name."""
    return Shape(strict(typing_extensions.TypedDict(  # type: ignore[operator]
        'Arguments', types)))


def _path(error: pydantic_core.ErrorDetails) -> str:
    return '.'.join(map(str, error['loc']))


def _problem(error: pydantic_core.ErrorDetails) -> errors.Problem:
    """Return what is wrong with a field, and what to do instead."""
    context: Mapping[str, Any] = error.get('ctx', {})
    cause = context.get('error')
    if isinstance(cause, errors.BadValue):
        return cause.why, cause.instead
    kind = error['type']
    if kind == 'missing':
        return 'it is missing', 'give it'
    if kind == _UNKNOWN:
        return ('this version does not know it',
                'leave it out, or upgrade what refuses it')
    return (f'the value {_short(error["input"])} is not supported',
            _instead(kind, context, error['msg']))


def _instead(kind: str, context: Mapping[str, Any], message: str) -> str:
    if kind == 'greater_than_equal':
        return f'use at least {context["ge"]}'
    if kind == 'less_than_equal':
        return f'use at most {context["le"]}'
    if kind == 'too_long':
        return f'use at most {context["max_length"]}'
    if kind == 'literal_error':
        return f'use {context["expected"]}'
    return 'use ' + message.removeprefix('Input should be ')


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_MAX else f'{text[:_VALUE_MAX]}…'
