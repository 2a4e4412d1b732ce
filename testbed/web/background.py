# SPDX-License-Identifier: Apache-2.0
"""Starts "sync" as a separate process, which outlives the request."""

import pathlib
import subprocess
import sys
import time

from bench import errors
from testbed import folder as folders
from testbed import runs
from testbed import sync

_CHECKOUT = pathlib.Path(__file__).parents[2]
START_S = 30
_LOOK_AGAIN_S = 0.05


def start(folder: folders.Folder, record: runs.Runs, who: str) -> None:
    """Start a sync, and return when its run is in the database.

    :raises errors.BenchError: a sync is running, or it did not start.
    """
    if sync.running(folder):
        raise errors.BenchError('A sync runs already; see how far it is.')
    before = record.last(running=True)
    with open(folder.path / 'sync.log', 'w') as log:
        process = subprocess.Popen(
            [sys.executable, '-m', 'testbed', *folder.arguments(),
             f'--owner={who}', 'sync'], cwd=_CHECKOUT,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True)
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        ended = process.poll() is not None
        last = record.last(running=True)
        if last is not None and (before is None
                                 or last.number > before.number):
            return
        if ended:
            break
        time.sleep(_LOOK_AGAIN_S)
    raise errors.BenchError('The sync did not start: '
                            + (folder.path / 'sync.log').read_text()[-500:])
