# SPDX-License-Identifier: Apache-2.0
"""Runs programs of checkouts; errors include their output."""

from collections.abc import Sequence
import pathlib
import subprocess

from bench import errors

# Maximum of a program's output in errors; compilers print much.
_SHOWN = 2000


def run(arguments: Sequence[str | pathlib.Path], folder: pathlib.Path,
        timeout: float, variables: dict[str, str] | None = None) -> str:
    """Run a program and return its standard output.

    :param timeout: seconds.
    :raises BenchError: it failed or took longer.
    """
    try:
        done = subprocess.run(
            arguments, cwd=folder, env=variables, timeout=timeout, text=True,
            errors='replace', stdin=subprocess.DEVNULL, capture_output=True,
            check=False)
    except OSError as error:
        raise errors.BenchError(f'{arguments[0]} does not start: {error}',
                                ) from error
    except subprocess.TimeoutExpired as error:
        raise errors.BenchError(
            f'{arguments[0]} in {folder}: no end after {timeout:.0f} s',
        ) from error
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip())[-_SHOWN:]
        raise errors.BenchError(
            f'{arguments[0]} in {folder} failed with {done.returncode}: '
            f'{output}')
    return done.stdout
