# SPDX-License-Identifier: Apache-2.0
"""Standard output of commands, whose reader may be missing or go away."""

import contextlib
import os
import sys


def prepare() -> None:
    """Replace a closed standard output by the null device."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, 'w')  # noqa: SIM115


def say(text: str) -> None:
    """Write a line; a reader that has closed its end is not an error.

    :raises OSError: it cannot be written for another reason.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        abandon()


def abandon() -> None:
    """Drop buffered output, which Python would try to flush again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
