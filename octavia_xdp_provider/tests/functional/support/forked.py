# SPDX-License-Identifier: Apache-2.0
"""Commands of this project without the start of an interpreter.

Importing a command takes some times as long as most of them run.
"""

import io
import os
import select
import signal
import subprocess
import sys
import tempfile


def run(main, words, timeout, prepare=lambda: None):
    """Run a command's `main` in a process of its own.

    :param prepare: called in that process before, to enter a namespace say.
    :returns: subprocess.CompletedProcess, with text.
    :raises subprocess.TimeoutExpired: it was killed.
    """
    with (tempfile.TemporaryFile('w+') as out,
          tempfile.TemporaryFile('w+') as err):
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            _child(main, words, prepare, out, err)
        status = _wait(pid, words, timeout)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, status, out.read(),
                                           err.read())


def _child(main, words, prepare, out, err):
    """Never returns: the tests are the parent's."""
    status = 1
    try:
        with open(os.devnull) as empty:
            os.dup2(empty.fileno(), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        # The files that the test runner has put there.
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(number, 'w', closefd=False))
            for number in (1, 2))
        prepare()
        status = main(words) or 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pid, words, timeout):
    end = os.pidfd_open(pid)
    try:
        in_time, _, _ = select.select([end], [], [], timeout)
    finally:
        os.close(end)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not in_time:
        raise subprocess.TimeoutExpired(words, timeout)
    return os.waitstatus_to_exitcode(status)
