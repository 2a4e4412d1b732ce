# SPDX-License-Identifier: Apache-2.0
"""Errors that end a benchmark, with texts for the user."""

from collections.abc import Callable
import sys

# The exit status that shells report for a process killed by SIGINT.
_INTERRUPTED = 130


class BenchError(Exception):
    """Shown without a traceback: what is wrong, and what to do instead."""


class DeclarationError(BenchError):
    """An invalid declaration.

    :param path: path of the file.
    :param line: line of the mistake, from 1 on.
    """

    def __init__(self, path, line: int, text: str):
        super().__init__(f'{path}:{line}: {text}')
        self.path, self.line, self.text = path, line, text


def exit_status(program: str, function: Callable[[], int | None]) -> int:
    """Return the exit status of a program whose work is the function."""
    try:
        return function() or 0
    except BenchError as error:
        print(f'{program}: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f'{program}: interrupted', file=sys.stderr)
        return _INTERRUPTED
