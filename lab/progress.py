# SPDX-License-Identifier: Apache-2.0
"""A timeline of steps and their durations on standard output."""

import contextlib
import sys
import threading
import time

HEARTBEAT = 10.0

_begin = time.monotonic()
_lock = threading.Lock()
_open_line = None


@contextlib.contextmanager
def step(title):
    """Print `[ 12.3s] title … ok (3.1 s)` around a block.

    Steps may overlap in several threads; then each end has its own line. A
    step that takes long prints every ten seconds that it still runs.
    """
    start = time.monotonic()
    _print_begin(title)
    ended = threading.Event()
    heart = threading.Thread(
        target=_beat, args=(title, start, ended), daemon=True)
    heart.start()
    outcome = 'failed'
    try:
        yield
        outcome = 'ok'
    finally:
        ended.set()
        heart.join()
        _print_end(title, f'{outcome} ({time.monotonic() - start:.1f} s)')


def say(text):
    """Print a line of the timeline."""
    with _lock:
        _close_line()
        _write(f'{_stamp()} {text}\n')


def _write(text):
    # The reader may have exited; steps go on nevertheless, and clean up.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(text)
        sys.stdout.flush()


def _beat(title, start, ended):
    while not ended.wait(HEARTBEAT):
        _print_end(title, f'still running ({time.monotonic() - start:.0f} s)')


def _print_begin(title):
    global _open_line
    with _lock:
        _close_line()
        _write(f'{_stamp()} {title} … ')
        _open_line = title


def _print_end(title, text):
    global _open_line
    with _lock:
        if _open_line == title:
            _open_line = None
            _write(f'{text}\n')
        else:
            _close_line()
            _write(f'{_stamp()} {title}: {text}\n')


def _close_line():
    global _open_line
    if _open_line is not None:
        _open_line = None
        _write('\n')


def _stamp():
    return f'[{time.monotonic() - _begin:6.1f}s]'
