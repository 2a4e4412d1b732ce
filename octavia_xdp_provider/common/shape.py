# SPDX-License-Identifier: Apache-2.0
"""Checks that JSON has a type, and says where it has not.

pydantic does it: it takes the types that mypy reads, so that each field
stands once, and needs microseconds for what jsonschema needs milliseconds
for, which counts on a node with a thousand load balancers.
"""

from collections.abc import Collection
from collections.abc import Mapping
import typing
from typing import Any

import pydantic
import pydantic_core
import typing_extensions

from octavia_xdp_provider.common import errors

# JSON is what it is: no text is taken for a number, no field is ignored.
strict = pydantic.with_config(
    pydantic.ConfigDict(strict=True, extra='forbid'))

# A value in a message ends after so many characters.
_VALUE_MAX = 60

_UNKNOWN = 'extra_forbidden'


def partial(type_: Any, without: Collection[str] = (),
            **replaced: Any) -> Any:
    """The type of a change: each field may be missing, or null.

    :param type_: a TypedDict.
    :param without: fields that no change has.
    :param replaced: types of fields, by name, in place of its own.
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
    """The type of an object with values of this type by their ids."""
    return dict[str, type_]


class Shape:
    """A type that JSON is compared with."""

    def __init__(self, type_: Any) -> None:
        self._adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(type_)

    def check(self, value: object, within: str = '') -> None:
        """Check a value, which stays as it is.

        :param within: path of the value, which begins those in errors.
        :raises Refused: names the first field that is wrong, by its path.
        """
        for error in self._errors(value):
            path = '.'.join(filter(None, (within, _path(error))))
            raise errors.Refused(path or 'document', *_problem(error))

    def unknown_fields(self, value: object) -> list[str]:
        """Paths of all fields that the type does not have."""
        return [_path(error) for error in self._errors(value)
                if error['type'] == _UNKNOWN]

    def _errors(self, value: object) -> list[pydantic_core.ErrorDetails]:
        try:
            self._adapter.validate_python(value)
        except pydantic.ValidationError as error:
            return error.errors(include_url=False)
        return []


def arguments(**types: Any) -> Shape:
    """The shape of a method's arguments, by their names."""
    return Shape(strict(typing_extensions.TypedDict(  # type: ignore[operator]
        'Arguments', types)))


def _path(error: pydantic_core.ErrorDetails) -> str:
    return '.'.join(map(str, error['loc']))


def _problem(error: pydantic_core.ErrorDetails) -> errors.Problem:
    """What is wrong with a field, and what would be right."""
    context: Mapping[str, Any] = error.get('ctx', {})
    found = context.get('error')
    if isinstance(found, errors.BadValue):
        return found.why, found.instead
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
