# SPDX-License-Identifier: Apache-2.0
"""How a command of an operator's ends, whatever became of it."""

from collections.abc import Callable
from collections.abc import Mapping
import sys

from octavia_xdp_provider.common import stdout

FAILED = 2


def run(program: str, function: Callable[[], int | None],
        texts: Mapping[type[Exception], Callable[..., str]]) -> int | None:
    """Call a function that writes to standard output.

    A reader that has seen enough is no failure; a full disk is one, and so
    are the errors named.

    :param texts: class of errors → what is printed of such an error.
    :returns: exit status: the function's, FAILED after an error, and as of a
        shell's commands after an interrupt.
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
