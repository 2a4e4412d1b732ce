# SPDX-License-Identifier: Apache-2.0
"""What others have said, so that a terminal only shows it."""

import typing
import unicodedata

_KEPT = frozenset('\n\t')


def printable(value: typing.Any) -> typing.Any:
    """A text without control characters: they are written as in "\\x1b".

    A terminal obeys them. Values of other types stay as they are: whoever
    shows those writes them in a notation of their own.
    """
    if not isinstance(value, str) or value.isprintable():
        return value
    return ''.join(
        one if one in _KEPT or unicodedata.category(one) != 'Cc'
        else f'\\x{ord(one):02x}' for one in value)
