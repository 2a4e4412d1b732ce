# SPDX-License-Identifier: Apache-2.0
"""Replaces files atomically."""

import os
import pathlib
import tempfile

from bench import errors


def write(path: pathlib.Path, text: str) -> None:
    """:raises BenchError: the file cannot be written; nothing is left."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
                'w', dir=path.parent, prefix=f'.{path.name}.', delete=False,
                encoding='utf-8') as part:
            try:
                part.write(text)
                part.close()
                os.chmod(part.name, 0o644)
                os.replace(part.name, path)
            except BaseException:
                pathlib.Path(part.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise errors.BenchError(f'{path}: {error.strerror}') from error
