# SPDX-License-Identifier: Apache-2.0
"""Escapes untrusted text, so that it cannot control a terminal."""

import typing
import unicodedata

_KEPT = frozenset('\n\t')


def printable(value: typing.Any) -> typing.Any:
    """Replace control characters of a text by escapes such as "\\x1b".

    A terminal would execute them. Values of other types are returned
    unchanged: callers format those themselves.
    """
    if not isinstance(value, str) or value.isprintable():
        return value
    return ''.join(
        char if char in _KEPT or unicodedata.category(char) != 'Cc'
        else f'\\x{ord(char):02x}' for char in value)
