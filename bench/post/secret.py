# SPDX-License-Identifier: Apache-2.0
"""Tokens and passwords from the environment or a file."""

import os
import pathlib

from bench import errors


def read(variable: str, path: pathlib.Path | None) -> str:
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
    return text
