# SPDX-License-Identifier: Apache-2.0
"""Validates what users enter (owners, purposes), and formats times."""

import datetime
import re
import unicodedata

from bench import errors

PURPOSE_MAX = 200
_OWNER = re.compile(r'[a-z0-9][a-z0-9._-]{0,31}')


def owner(text: str) -> str:
    """Return a valid name unchanged; it becomes the author of commits.

    :raises errors.BenchError: it is invalid.
    """
    if not _OWNER.fullmatch(text):
        raise errors.BenchError(
            f'{text[:40]!r} is no name of an owner: lower-case letters, '
            'digits, dots, dashes and underscores, 32 at most, a letter or '
            'digit first')
    return text


def purpose(text: str) -> str:
    """Return a purpose without surrounding blanks.

    Control characters, line ends and marks that change the direction of
    writing are refused, so that logs and commits cannot be misread.

    :raises errors.BenchError: it is invalid.
    """
    text = text.strip()
    if not text:
        raise errors.BenchError('a purpose is needed, for those who wait')
    if len(text) > PURPOSE_MAX:
        raise errors.BenchError(f'the purpose has {len(text)} characters, '
                                f'{PURPOSE_MAX} at most are taken')
    for character in text:
        if unicodedata.category(character)[0] == 'C' or \
                unicodedata.category(character) in ('Zl', 'Zp'):
            raise errors.BenchError(
                f'the purpose has the character U+{ord(character):04X}, which '
                'is none that can be read: one line of plain text is taken')
    return text


def time(seconds: int) -> str:
    """Format UNIX time as '2026-01-31 08:00 UTC'."""
    return datetime.datetime.fromtimestamp(
        seconds, datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
