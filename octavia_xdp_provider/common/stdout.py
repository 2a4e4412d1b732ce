# SPDX-License-Identifier: Apache-2.0
"""Standard output of commands, whoever reads it and for however long."""

import contextlib
import os
import sys


def prepare() -> None:
    """Let a closed standard output be one that nobody reads."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, 'w')  # noqa: SIM115


def say(text: str) -> None:
    """Write a line; a reader that has seen enough is no failure.

    :raises OSError: it cannot be written for another reason.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        abandon()


def abandon() -> None:
    """Drop what cannot be written, or Python tries once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
