# SPDX-License-Identifier: Apache-2.0
"""Runs an operator's command and reports its errors."""

from collections.abc import Callable
from collections.abc import Mapping
import sys

from octavia_xdp_provider.process import stdout

FAILED = 2


def run(program: str, function: Callable[[], int | None],
        texts: Mapping[type[Exception], Callable[..., str]]) -> int | None:
    """Call a function that writes to standard output.

    A reader that closes the pipe is not an error; a full disk is one, and so
    are the given errors.

    :param texts: class of errors → function that returns the text to print.
    :returns: exit status: the function's, FAILED after an error, and that of
        a shell's command after an interrupt.
    """
    try:
        status = function()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        stdout.abandon()
        return 0
    except KeyboardInterrupt:
        return 130
    except tuple(texts) as error:
        message = next(text(error) for kind, text in texts.items()
                       if isinstance(error, kind))
    except OSError as error:
        message = str(error)
        stdout.abandon()
    print(f'{program}: {message}', file=sys.stderr)
    return FAILED
