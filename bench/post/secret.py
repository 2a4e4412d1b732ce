# SPDX-License-Identifier: Apache-2.0
"""Tokens and passwords from the environment or a file, which are not shown."""

import os
import pathlib

from bench import errors


class Secret:
    """A text that only reveal() returns, not print, repr or a log."""

    def __init__(self, text: str):
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return '<secret>'


def read(variable: str, path: pathlib.Path | None) -> Secret:
    """:raises BenchError: the secret is missing or malformed."""
    if path is not None:
        try:
            text, source = path.read_text(encoding='utf-8'), str(path)
        except (OSError, UnicodeDecodeError) as error:
            raise errors.BenchError(
                f'{path}: cannot be read as a token: '
                f'{type(error).__name__}') from None
    else:
        text, source = os.environ.get(variable, ''), variable
    text = text.strip()
    if not text:
        raise errors.BenchError(
            f'{source} has no token: set {variable}, or name a file by '
            f'--token-file')
    if not (text.isascii() and text.isprintable()) or ' ' in text:
        raise errors.BenchError(f'{source}: a token is one word of ASCII')
    return Secret(text)
