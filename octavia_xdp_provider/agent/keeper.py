# SPDX-License-Identifier: Apache-2.0
"""Keeps a function running in a child process.

ExaBGP ends if a child of its own dies more than five times within a minute,
and also if one dies while it is being answered. So ExaBGP's child is this
keeper, which does nothing that could fail and holds ExaBGP's pipes open, and
the work is done by the keeper's child, which may die at any time.
"""

import ctypes
import logging
import os
import signal
import time
import traceback

LOG = logging.getLogger(__name__)

DELAY_FIRST = 0.1
DELAY_MAX = 2.0
# A child that lived longer than this did not die of a lasting cause.
SETTLED = 10.0

_PR_SET_PDEATHSIG = 1


def keep(work):
    """Run work() in a child, again when it fails; returns after success."""
    delay = DELAY_FIRST
    keeper = os.getpid()
    while True:
        started = time.monotonic()
        child = os.fork()
        if not child:
            os._exit(_in_child(work, keeper))
        _pid, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return
        if time.monotonic() - started > SETTLED:
            delay = DELAY_FIRST
        LOG.error('process %d ended with %d; starting another in %.1f s',
                  child, code, delay)
        time.sleep(delay)
        delay = min(2 * delay, DELAY_MAX)


def _in_child(work, keeper):
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            return 1
        work()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
