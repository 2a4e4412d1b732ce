# SPDX-License-Identifier: Apache-2.0
"""Waiting for what controllers and nodes do, with a bar for whoever looks on.

A command that is interrupted while it waits has asked for everything: the
controllers go on.
"""

import time

import tqdm

from octavia_xdp_provider.manage import command

# Seconds between two looks at the database.
POLL_S = 0.5


def add_arguments(parser):
    parser.add_argument('--wait', action='store_true',
                        help='return when it is done')
    parser.add_argument('--timeout', type=float, default=600.0,
                        metavar='SECONDS',
                        help='with --wait: give up after so long; what was '
                             'asked for goes on (default: 600)')


def bar(app, total, title):
    """A progress bar; shown where standard error is a terminal."""
    return tqdm.tqdm(total=total, desc=title, file=app.stderr, leave=False,
                     disable=not app.stderr.isatty())


def until_none(app, title, left, timeout_s, words):
    """Until nothing is left.

    :param left: returns what is, a sequence.
    :param words: of the error, made of what is left then.
    :raises NotDone: it takes longer than that.
    """
    deadline = time.monotonic() + timeout_s
    remaining = left()
    with bar(app, len(remaining), title) as shown:
        while remaining:
            if time.monotonic() > deadline:
                raise command.NotDone(words(remaining))
            time.sleep(POLL_S)
            remaining = left()
            shown.total = max(shown.total, len(remaining))
            shown.update(shown.total - len(remaining) - shown.n)
