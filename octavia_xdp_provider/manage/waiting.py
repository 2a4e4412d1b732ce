# SPDX-License-Identifier: Apache-2.0
"""Wait for controllers and nodes, with a progress bar on a terminal.

A command has stored all its changes before it waits. If it is interrupted
while it waits, the controllers still carry them out.
"""

import argparse
from collections.abc import Callable
from collections.abc import Sequence
import time
from typing import Any

import tqdm

from octavia_xdp_provider.manage import command

# Seconds between two queries of the database.
POLL_S = 0.5


def add_timeout(parser: argparse.ArgumentParser, option: str,
                default_s: float, help_: str) -> None:
    """Add an option that takes seconds; its help names the default."""
    parser.add_argument(option, type=float, default=default_s,
                        metavar='SECONDS',
                        help=f'{help_} (default: {default_s:.0f})')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --wait and --timeout."""
    parser.add_argument('--wait', action='store_true',
                        help='return when it is done')
    add_timeout(parser, '--timeout', 600.0,
                'with --wait: stop waiting after so long; what was asked for '
                'goes on')


def progress_bar(app: Any, total: int, title: str) -> Any:
    """Return a progress bar, visible if standard error is a terminal."""
    return tqdm.tqdm(total=total, desc=title, file=app.stderr, leave=False,
                     disable=not app.stderr.isatty())


def until_none(app: Any, title: str,
               get_remaining: Callable[[], Sequence[Any]], timeout_s: float,
               describe: Callable[[Any], str]) -> None:
    """Wait until nothing remains.

    :param get_remaining: returns a sequence of what remains.
    :param describe: returns the error's text for such a sequence.
    :raises CommandError: something remains after timeout_s.
    """
    deadline = time.monotonic() + timeout_s
    remaining = get_remaining()
    with progress_bar(app, len(remaining), title) as bar:
        while remaining:
            if time.monotonic() > deadline:
                raise command.CommandError(describe(remaining))
            time.sleep(POLL_S)
            remaining = get_remaining()
            bar.total = max(bar.total, len(remaining))
            bar.update(bar.total - len(remaining) - bar.n)
